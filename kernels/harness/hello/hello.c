#include <stdio.h>

int main(void) {
  volatile double sum = 0;
  for (int i = 1; i <= 1000; i++) sum += i;
  puts(sum == 500500 ? "hello" : "wrong sum");
  return sum != 500500;
}
