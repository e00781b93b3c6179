// An example: silu(x) * y, checked against the host in double precision. With -DKBISECT_CPU (g++ -x c++)
// it runs without a device.
#include "kbisect.cuh"

#ifdef KBISECT_CPU
static void launch(const float *x, const float *y, float *out, size_t n, kbisect::Stream) {
  for (size_t i = 0; i < n; i++) out[i] = x[i] / (1 + std::exp(-x[i])) * y[i];
}
#else
__global__ void gate(const float *x, const float *y, float *out, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = x[i] / (1 + expf(-x[i])) * y[i];
}

static void launch(const float *x, const float *y, float *out, size_t n, kbisect::Stream s) {
  gate<<<static_cast<unsigned>((n + 255) / 256), 256, 0, s>>>(x, y, out, n);
}
#endif

static std::vector<double> reference(const std::vector<float> &x, const std::vector<float> &y) {
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); i++) out[i] = double(x[i]) / (1 + std::exp(-double(x[i]))) * double(y[i]);
  return out;
}

int main(int argc, char **argv) {
  kbisect::Harness h(argc, argv);
  for (size_t n : {size_t(1) << 12, size_t(1) << 18}) {
    constexpr int sets = 3;
    std::vector<std::vector<float>> x, y;
    std::vector<kbisect::Buffer<float>> dx, dy;
    for (int i = 0; i < sets; i++) {
      x.push_back(kbisect::uniform(n, 2 * i + 1));
      y.push_back(kbisect::uniform(n, 2 * i + 2));
      dx.emplace_back(x[i]);
      dy.emplace_back(y[i]);
    }
    kbisect::Buffer<float> out(n);

    kbisect::Case c("n=" + std::to_string(n));
    c.inputs = sets;
    c.launch = [&](int i, kbisect::Stream s) { launch(dx[i].data(), dy[i].data(), out.data(), n, s); };
    c.poison = [&] { out.poison(); };
    c.check = [&](int i) { return kbisect::compare(out.download(), reference(x[i], y[i]), 1e-5, 1e-6); };
    h.run(c);
  }
  return h.finish();
}
