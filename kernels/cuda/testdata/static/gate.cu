__device__ float table[4] = {1, 2, 3, 4};
namespace {
__global__ void gate(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * table[i & 3];
}
}  // namespace
__global__ void reverse(float *x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[63 - threadIdx.x];
}
void launch(const float *x, float *y, int n) {
  gate<<<(n + 255) / 256, 256>>>(x, y, n);
  reverse<<<1, 64>>>(y);
}
