// A management library of devices that are not there. FAKE_GPUS is how many there are; a process computes on those
// whose numbers stand in the file FAKE_BUSY. What is left out here a driver may leave out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, NOT_FOUND = 6, SMALL = 7, MOST = 16 };

static char devices[MOST];

static unsigned count(void) {
	const char *n = getenv("FAKE_GPUS");
	return n ? (unsigned)atoi(n) : 0;
}

static unsigned number(const void *d) { return (unsigned)((const char *)d - devices); }

int nvmlInit_v2(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *out, unsigned len) { return snprintf(out, len, "1.0"), SUCCESS; }

int nvmlSystemGetCudaDriverVersion(int *out) { return *out = 12040, SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *out) { return *out = count(), SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) { return i < count() ? (*out = devices + i, SUCCESS) : INVALID; }

int nvmlDeviceGetUUID(void *d, char *out, unsigned len) {
	const char *base = getenv("FAKE_UUID");
	return snprintf(out, len, "GPU-%s-%u", base ? base : "fake", number(d)), SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
	for (unsigned i = 0; i < count(); i++) {
		char own[96];
		nvmlDeviceGetUUID(devices + i, own, sizeof own);
		if (!strcmp(own, uuid)) return *out = devices + i, SUCCESS;
	}
	return NOT_FOUND;
}

int nvmlDeviceGetName(void *d, char *out, unsigned len) { return snprintf(out, len, "Fake"), SUCCESS; }

int nvmlDeviceGetIndex(void *d, unsigned *out) { return *out = number(d), SUCCESS; }

struct process {
	unsigned pid;
	unsigned long long memory;
	unsigned instance, compute;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *out) {
	const char *file = getenv("FAKE_BUSY");
	FILE *f = file ? fopen(file, "r") : NULL;
	char busy[MOST + 1] = "";
	if (f) {
		if (!fgets(busy, sizeof busy, f)) busy[0] = 0;
		fclose(f);
	}
	if (!strchr(busy, (int)('0' + number(d)))) return *n = 0, SUCCESS;
	if (*n < 1) return *n = 1, SMALL;
	out[0] = (struct process){1, 1 << 20, ~0u, ~0u};
	return *n = 1, SUCCESS;
}
