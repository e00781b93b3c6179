// Times a CUDA kernel properly and tells kbisect about it. One header, C++17, CUDA 11.8 or newer.
// With -DKBISECT_CPU it is plain C++ and times functions of the host, so that a benchmark can be
// tried where there is no device.
//
//   int main(int argc, char **argv) {
//     kbisect::Harness h(argc, argv);
//     kbisect::Case c("n=1024");
//     c.inputs = 3;                                          // sets of inputs to rotate through
//     c.launch = [&](int i, kbisect::Stream s) { kernel<<<grid, block, 0, s>>>(x[i].data(), y.data(), n); };
//     c.poison = [&] { y.poison(); };                        // outputs, before each check
//     c.check  = [&](int i) { return kbisect::compare(y.download(), want(i), 1e-5, 1e-6); };
//     h.run(c);
//     return h.finish();
//   }
//
// A case is a first launch, warm-up until the times are stable, capture of CUDA graphs (--graph, or
// graph = true), a check of every set of inputs, and the timings; each a phase of its own. Times are
// those of device events, with the L2 cache, by the size that the device reports, flushed before each
// launch and the whole device synchronised after it. Facts go as lines to the descriptor KBISECT_FD, or
// to standard output where there is none.
//
// Options of the program: --samples N, --seconds S (bound on the timings of one case), --batch N
// (launches in one timing, for kernels of a few microseconds), --case NAME (only that one), --graph.
#ifndef KBISECT_CUH
#define KBISECT_CUH

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef KBISECT_CPU
#include <cuda_runtime.h>
#endif

namespace kbisect {

// Output writes the trial protocol: one fact, one line, one write.
class Output {
 public:
  Output() {
    const char *fd = std::getenv("KBISECT_FD");
    if (fd != nullptr && *fd != '\0') fd_ = std::atoi(fd);
  }
  void line(const std::string &word, std::string text) const {
    for (char &c : text)
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    std::string out = word + ": " + text.substr(0, 3900) + "\n";
    std::fflush(stdout);  // so that both keep their order where they are one
    for (const char *p = out.data(), *end = p + out.size(); p < end;) {
      ssize_t n = ::write(fd_, p, static_cast<size_t>(end - p));
      if (n < 0 && errno != EINTR) return;
      if (n > 0) p += n;
    }
  }
  void phase(const std::string &name) const { line("phase", name); }
  void test(const std::string &name) const { line("case", name); }
  void sample(double seconds) const { line("sample", number(seconds * 1e6) + " us"); }
  void metric(const std::string &name, double value, const std::string &unit) const {
    line("metric " + name, number(value) + " " + unit);
  }
  // check says that a check passed, or why it did not.
  void check(const std::string &why) const { line("check", why.empty() ? "pass" : "fail " + why); }
  void skip(const std::string &why) const { line("skip", why); }
  void infra(const std::string &why) const { line("infra", why); }

 private:
  static std::string number(double v) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", v);
    return text;
  }
  int fd_ = 1;
};

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#ifdef KBISECT_CPU

using Stream = int;

// Device is the host, posing as one.
class Device {
 public:
  Device() {
    long size = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    size = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    scratch_.resize(size > 0 && size < (1L << 28) ? static_cast<size_t>(size) : size_t(32) << 20);
  }
  Stream stream() const { return 0; }
  void synchronize() const {}
  template <class F>
  double time(F &&launch) {
    std::memset(scratch_.data(), ++value_, scratch_.size());
    double start = now();
    launch();
    return now() - start;
  }
  template <class F>
  std::function<void()> capture(F launch) {
    return launch;  // there are no graphs: a replay is a call
  }

 private:
  std::vector<unsigned char> scratch_;
  unsigned char value_ = 0;
};

template <class T>
T *allocate(size_t n) {
  return static_cast<T *>(std::malloc(std::max<size_t>(n, 1) * sizeof(T)));
}
inline void release(void *p) { std::free(p); }
inline void to_device(void *to, const void *from, size_t bytes) { std::memcpy(to, from, bytes); }
inline void to_host(void *to, const void *from, size_t bytes) { std::memcpy(to, from, bytes); }
inline void fill_bytes(void *p, int value, size_t bytes) { std::memset(p, value, bytes); }

#else

using Stream = cudaStream_t;

// verify ends the program when a call of the CUDA runtime failed: as a crash, or as the machine's
// fault where there is no usable device.
inline void verify(cudaError_t e, const char *what, const char *file, int line) {
  if (e == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, what, cudaGetErrorName(e), cudaGetErrorString(e));
  if (e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver || e == cudaErrorDevicesUnavailable ||
      e == cudaErrorSystemNotReady || e == cudaErrorSystemDriverMismatch || e == cudaErrorECCUncorrectable) {
    Output().infra(cudaGetErrorString(e));
    std::exit(1);
  }
  std::abort();
}
#define KBISECT_VERIFY(call) ::kbisect::verify((call), #call, __FILE__, __LINE__)

// Device is the current CUDA device with a stream of its own.
class Device {
 public:
  Device() {
    int id = 0, size = 0;
    KBISECT_VERIFY(cudaGetDevice(&id));
    KBISECT_VERIFY(cudaDeviceGetAttribute(&size, cudaDevAttrL2CacheSize, id));
    bytes_ = size > 0 ? static_cast<size_t>(size) : size_t(256) << 20;
    KBISECT_VERIFY(cudaMalloc(&scratch_, bytes_));
    KBISECT_VERIFY(cudaStreamCreate(&stream_));
    KBISECT_VERIFY(cudaEventCreate(&start_));
    KBISECT_VERIFY(cudaEventCreate(&end_));
  }
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;
  Stream stream() const { return stream_; }
  void synchronize() const {
    KBISECT_VERIFY(cudaGetLastError());
    KBISECT_VERIFY(cudaDeviceSynchronize());
  }
  // time flushes the L2 cache, which also keeps the device busy while the launch is enqueued, and
  // adds what the device still did on other streams when the second event had passed.
  template <class F>
  double time(F &&launch) {
    KBISECT_VERIFY(cudaMemsetAsync(scratch_, ++value_, bytes_, stream_));
    KBISECT_VERIFY(cudaEventRecord(start_, stream_));
    launch();
    KBISECT_VERIFY(cudaGetLastError());
    KBISECT_VERIFY(cudaEventRecord(end_, stream_));
    KBISECT_VERIFY(cudaEventSynchronize(end_));
    double before = now();
    KBISECT_VERIFY(cudaDeviceSynchronize());
    double rest = now() - before;
    float ms = 0;
    KBISECT_VERIFY(cudaEventElapsedTime(&ms, start_, end_));
    return ms * 1e-3 + (rest > idle ? rest : 0);
  }
  // capture makes a graph of a launch and returns its replay.
  template <class F>
  std::function<void()> capture(F launch) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    KBISECT_VERIFY(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    launch();
    KBISECT_VERIFY(cudaStreamEndCapture(stream_, &graph));
#if CUDART_VERSION >= 12000
    KBISECT_VERIFY(cudaGraphInstantiate(&exec, graph, 0));
#else
    KBISECT_VERIFY(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
#endif
    KBISECT_VERIFY(cudaGraphDestroy(graph));
    Stream stream = stream_;
    return [exec, stream] { KBISECT_VERIFY(cudaGraphLaunch(exec, stream)); };
  }

 private:
  static constexpr double idle = 20e-6;  // seconds that a synchronisation of an idle device may take
  Stream stream_ = nullptr;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
  void *scratch_ = nullptr;
  size_t bytes_ = 0;
  unsigned char value_ = 0;
};

template <class T>
T *allocate(size_t n) {
  void *p = nullptr;
  KBISECT_VERIFY(cudaMalloc(&p, std::max<size_t>(n, 1) * sizeof(T)));
  return static_cast<T *>(p);
}
inline void release(void *p) { cudaFree(p); }
inline void to_device(void *to, const void *from, size_t bytes) {
  KBISECT_VERIFY(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}
inline void to_host(void *to, const void *from, size_t bytes) {
  KBISECT_VERIFY(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}
inline void fill_bytes(void *p, int value, size_t bytes) {
  KBISECT_VERIFY(cudaMemset(p, value, bytes));
  KBISECT_VERIFY(cudaDeviceSynchronize());
}

#endif

// Buffer is an array on the device.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t n) : n_(n), data_(allocate<T>(n)) { poison(); }
  explicit Buffer(const std::vector<T> &values) : Buffer(values.size()) { upload(values); }
  Buffer(Buffer &&other) noexcept : n_(other.n_), data_(std::exchange(other.data_, nullptr)) {}
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() {
    if (data_ != nullptr) release(data_);
  }
  T *data() const { return data_; }
  size_t size() const { return n_; }
  void upload(const std::vector<T> &values) { to_device(data_, values.data(), std::min(n_, values.size()) * sizeof(T)); }
  std::vector<T> download() const {
    std::vector<T> out(n_);
    to_host(out.data(), data_, n_ * sizeof(T));
    return out;
  }
  // poison fills it with ones in every bit, which is not a number in every floating-point type.
  void poison() { fill_bytes(data_, 0xFF, n_ * sizeof(T)); }

 private:
  size_t n_;
  T *data_;
};

template <class T>
double to_double(const T &v) {
  if constexpr (std::is_arithmetic<T>::value)
    return static_cast<double>(v);
  else
    return static_cast<double>(static_cast<float>(v));  // half and bfloat16
}

// compare returns "" if all values are near, or what differs. The reference is in double precision.
template <class T>
std::string compare(const std::vector<T> &got, const std::vector<double> &want, double rtol, double atol) {
  if (got.size() != want.size()) return std::to_string(got.size()) + " values instead of " + std::to_string(want.size());
  size_t bad = 0, first = 0;
  for (size_t i = 0; i < got.size(); i++) {
    double g = to_double(got[i]), w = want[i];
    bool near = g == w || (std::isnan(g) && std::isnan(w)) || std::abs(g - w) <= atol + rtol * std::abs(w);
    if (!near && bad++ == 0) first = i;
  }
  if (bad == 0) return "";
  char text[160];
  double g = to_double(got[first]), w = want[first];  // without the sign of what is no number
  std::snprintf(text, sizeof text, "%zu of %zu values differ, the first at %zu: %.6g instead of %.6g", bad, got.size(), first,
                std::isnan(g) ? std::abs(g) : g, std::isnan(w) ? std::abs(w) : w);
  return text;
}

// uniform returns n values in [0, 1), the same ones for a seed everywhere.
template <class T = float>
std::vector<T> uniform(size_t n, uint64_t seed) {
  std::vector<T> out(n);
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 0x632BE59BD9B4E019ull;
  for (T &v : out) {
    state += 0x9E3779B97F4A7C15ull;  // splitmix64
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    v = static_cast<T>(static_cast<float>((z ^ (z >> 31)) >> 40) * 0x1p-24f);
  }
  return out;
}

// Case is one shape or input of the kernel under test.
struct Case {
  explicit Case(std::string n) : name(std::move(n)) {}
  std::string name;
  int inputs = 1;                           // sets of inputs; launch and check are told which
  std::function<void(int, Stream)> launch;  // of the kernel under test, on that stream
  std::function<void()> poison;             // overwrites the outputs
  std::function<std::string(int)> check;    // after a launch: "" or what is wrong
  bool graph = false;                       // launches are captured in CUDA graphs
};

class Harness {
 public:
  Harness(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
      std::string option = argv[i];
      if (option == "--graph") {
        graph_ = true;
        continue;
      }
      const char *value = i + 1 < argc ? argv[++i] : "";
      if (option == "--samples") samples_ = std::max(1, std::atoi(value));
      else if (option == "--batch") batch_ = std::max(1, std::atoi(value));
      else if (option == "--seconds") seconds_ = std::atof(value);
      else if (option == "--case") only_ = value;
      else usage(argv[0], option);
    }
  }

  Output &output() { return out_; }
  Device &device() { return device_; }

  // run runs one case and reports whether its check passed.
  bool run(const Case &c) {
    if (!only_.empty() && only_ != c.name) return true;
    int inputs = std::max(1, c.inputs);
    std::vector<std::function<void()>> calls;
    for (int i = 0; i < inputs; i++) calls.push_back([&, i] { c.launch(i, device_.stream()); });
    out_.test(c.name);
    warm(calls);
    if (c.graph || graph_) {
      out_.phase("capture");
      for (auto &call : calls) call = device_.capture(call);
      device_.synchronize();
    }
    bool good = check(c, calls);
    measure(calls);
    return good;
  }

  // finish says that only the end of the process is left, and returns the exit status of the program: 1 when a check
  // failed.
  int finish() const {
    out_.phase("teardown");
    return failed_ > 0 ? 1 : 0;
  }

 private:
  using Calls = std::vector<std::function<void()>>;

  [[noreturn]] static void usage(const char *program, const std::string &option) {
    std::fprintf(stderr, "%s: unknown option %s\nusage: %s [--samples N] [--seconds S] [--batch N] [--case NAME] [--graph]\n", program,
                 option.c_str(), program);
    std::exit(2);
  }

  // warm launches until two windows in a row have the same median within 1 % or, after 0.1 s, within what they scatter by.
  void warm(const Calls &calls) {
    out_.phase("warmup");
    double start = now(), before = 0;
    std::vector<double> times;
    size_t n = 0;
    out_.metric("cold", device_.time(calls[0]), "s");
    for (int calm = 0; calm < 2 && n < 1000 && (n < 3 || now() - start < 2);) {
      times.push_back(device_.time(calls[n++ % calls.size()]));
      if (times.size() < 5) continue;
      std::sort(times.begin(), times.end());
      double m = times[2], scatter = now() - start > 0.1 ? times[3] - times[1] : 0;
      calm = before > 0 && std::abs(m - before) <= std::max(0.01 * before, scatter) ? calm + 1 : 0;
      before = m;
      times.clear();
    }
    out_.metric("warmup calls", static_cast<double>(n), "");
  }

  bool check(const Case &c, const Calls &calls) {
    out_.phase("check");
    if (!c.check) return true;
    std::string why;
    for (size_t i = 0; i < calls.size() && why.empty(); i++) {
      if (c.poison) c.poison();
      calls[i]();
      device_.synchronize();
      why = c.check(static_cast<int>(i));
    }
    out_.check(why);
    failed_ += why.empty() ? 0 : 1;
    return why.empty();
  }

  void measure(const Calls &calls) {
    out_.phase("measure");
    double start = now();
    size_t n = 0;
    for (int i = 0; i < samples_; i++) {
      double t = device_.time([&] {
        for (int b = 0; b < batch_; b++) calls[n++ % calls.size()]();
      });
      out_.sample(t / batch_);
      if (i >= 2 && now() - start > seconds_) break;
    }
  }

  Output out_;
  Device device_;
  int samples_ = 50, batch_ = 1, failed_ = 0;
  double seconds_ = 10;
  bool graph_ = false;
  std::string only_;
};

}  // namespace kbisect

#endif
