// What tests of fork() share.
#ifndef MS_CONVTANH_TESTS_NATIVE_FORK_TEST_UTIL_H_
#define MS_CONVTANH_TESTS_NATIVE_FORK_TEST_UTIL_H_

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/native/test.h"

namespace msct_test {

// First in tests whose children start threads although the parent has some: not every runtime follows there.
inline void require_threads_after_fork() {
#if defined(__SANITIZE_THREAD__)
  SKIP("the thread sanitizer does not follow threads into a fork");
#endif
  if (std::getenv("MS_CONVTANH_TEST_EMULATED")) SKIP("QEMU's user mode does not follow threads into a fork");
}

// Runs child() in a fork; it must end within a minute and without a failed check.
template <typename Child>
void in_a_fork(const Child& child) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(60);
    child();
    _exit(failures() == 0 ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(process, &status, 0), process);
  CHECK_EQ(status, 0);
}

}  // namespace msct_test

#endif  // MS_CONVTANH_TESTS_NATIVE_FORK_TEST_UTIL_H_
