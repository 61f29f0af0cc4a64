// Waiting for a condition variable, on any system that the library is copied to.
#ifndef MS_CONVTANH_KERNELS_WAIT_H_
#define MS_CONVTANH_KERNELS_WAIT_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace msct {

// Waits until done() holds. By the hour: condition_variable::wait itself is a symbol of GCC 12's libstdc++, without
// which a library built there also runs with that of GCC 11 (RHEL 9, openEuler 22.03).
template <typename Done>
void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Done done) {
  while (!changed.wait_for(lock, std::chrono::hours(1), done)) {
  }
}

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_WAIT_H_
