// Scratch memory for calls that bring no workspace of their own.
#ifndef MS_CONVTANH_ACLNN_SRC_WORKSPACE_POOL_H_
#define MS_CONVTANH_ACLNN_SRC_WORKSPACE_POOL_H_

#include <cstddef>

namespace msct {

// Borrows bytes of memory, aligned to 64, for its own life. Memory comes from buffers that grow, are kept, and are
// handed out again: a caller that repeats its problems allocates nothing once warm. Any number of threads may borrow at
// once. Throws std::bad_alloc.
class BorrowedWorkspace {
 public:
  explicit BorrowedWorkspace(size_t bytes);
  ~BorrowedWorkspace();
  BorrowedWorkspace(const BorrowedWorkspace&) = delete;
  BorrowedWorkspace& operator=(const BorrowedWorkspace&) = delete;

  void* data() const { return data_; }  // null for 0 bytes

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Bytes that the pool keeps and nobody has borrowed.
size_t idle_workspace_bytes();

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_WORKSPACE_POOL_H_
