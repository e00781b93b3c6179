#include <cstdio>

__global__ void add(int *p) { atomicAdd(p, 1); }

int main() {
  int *p = nullptr, n = 0;
  cudaError_t e = cudaMalloc(&p, sizeof n);
  if (e == cudaSuccess) e = cudaMemset(p, 0, sizeof n);
  if (e == cudaSuccess) {
    add<<<2, 32>>>(p);
    e = cudaGetLastError();
  }
  if (e == cudaSuccess) e = cudaMemcpy(&n, p, sizeof n, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  std::puts(n == 64 ? "hello" : "wrong sum");
  return n != 64;
}
