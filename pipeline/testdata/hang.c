// Goes through the phases of a trial and hangs in the one that is named.
// With a second argument it first leaves a grandchild behind that holds every
// descriptor in a session of its own and does not listen to SIGTERM.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fd;

static void say(const char *line) { dprintf(fd, "%s\n", line); }

static void hang(int argc) {
  if (argc > 2 && fork() == 0) {
    setsid();
    signal(SIGTERM, SIG_IGN);
    if (fork() != 0) _exit(0);
    for (;;) pause();
  }
  if (argc > 2) signal(SIGTERM, SIG_IGN);
  for (;;) pause();
}

int main(int argc, char **argv) {
  const char *phases[] = {"load", "warmup", "capture", "check", "measure"};
  const char *where = argc > 1 ? argv[1] : "";
  fd = atoi(getenv("KBISECT_FD"));
  for (int i = 0; i < 5; i++) {
    if (i > 0) dprintf(fd, "phase: %s\n", phases[i]);
    if (strcmp(phases[i], where) == 0) hang(argc);
    if (i == 3) say("check: pass");
    if (i == 4) say("sample: 3 us"), say("sample: 4 us");
  }
  if (strcmp("teardown", where) == 0) hang(argc);
  return 0;
}
