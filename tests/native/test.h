// A small test frame: one executable for each *_test.cc file, with no dependency to fetch.
//
//   TEST(name) { CHECK(condition); CHECK_EQ(got, expected); CHECK_NEAR(got, expected, tolerance); SKIP("reason"); }
//
// main() runs all tests, or those named on the command line, and fails if any check failed or a name is unknown.
// Checks report and go on; they may be used from several threads.
#ifndef MS_CONVTANH_TESTS_NATIVE_TEST_H_
#define MS_CONVTANH_TESTS_NATIVE_TEST_H_

#include <atomic>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace msct_test {

struct Skipped {
  std::string reason;
};

struct Case {
  const char* name;
  void (*run)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline std::atomic<int>& failures() {
  static std::atomic<int> count{0};
  return count;
}

inline bool add(const char* name, void (*run)()) {
  cases().push_back({name, run});
  return true;
}

inline void fail(const char* file, int line, const std::string& text) {
  if (failures()++ < 20) std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
}

template <typename A, typename B>
void check_eq(const char* file, int line, const char* text, const A& got, const B& expected) {
  if (got == expected) return;
  std::ostringstream message;
  message.precision(17);
  message << text << ": got " << got << ", expected " << expected;
  fail(file, line, message.str());
}

// NaN is near NaN only.
inline void check_near(const char* file, int line, const char* text, double got, double expected, double tolerance) {
  if (std::fabs(got - expected) <= tolerance || got == expected || (std::isnan(got) && std::isnan(expected))) return;
  std::ostringstream message;
  message.precision(17);
  message << text << ": got " << got << ", expected " << expected << " within " << tolerance;
  fail(file, line, message.str());
}

inline int run(int argc, char** argv) {
  int passed = 0, failed = 0, skipped = 0;
  auto run_one = [&](const Case& test) {
    failures() = 0;
    try {
      test.run();
    } catch (const Skipped& skip) {
      std::printf("skip %s: %s\n", test.name, skip.reason.c_str());
      if (failures() == 0) return void(++skipped);
    }
    ++(failures() == 0 ? passed : failed);
    std::printf("%s %s\n", failures() == 0 ? "ok  " : "FAIL", test.name);
    std::fflush(stdout);
  };
  if (argc < 2) {
    for (const Case& test : cases()) run_one(test);
  }
  for (int i = 1; i < argc; ++i) {
    const Case* named = nullptr;
    for (const Case& test : cases()) {
      if (std::string(argv[i]) == test.name) named = &test;
    }
    if (named == nullptr) {
      std::fprintf(stderr, "no test named %s\n", argv[i]);
      ++failed;
    } else {
      run_one(*named);
    }
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 ? 0 : 1;
}

}  // namespace msct_test

#define TEST(name)                                                                      \
  static void test_##name();                                                            \
  [[maybe_unused]] static const bool added_##name = msct_test::add(#name, test_##name); \
  static void test_##name()
#define CHECK(condition) ((condition) ? void() : msct_test::fail(__FILE__, __LINE__, "CHECK(" #condition ") failed"))
#define CHECK_EQ(got, expected) msct_test::check_eq(__FILE__, __LINE__, #got, got, expected)
#define CHECK_NEAR(got, expected, tolerance) msct_test::check_near(__FILE__, __LINE__, #got, got, expected, tolerance)
#define SKIP(reason) \
  throw msct_test::Skipped { reason }

int main(int argc, char** argv) { return msct_test::run(argc, argv); }

#endif  // MS_CONVTANH_TESTS_NATIVE_TEST_H_
