#include "aclnn/src/launch.h"

#include <algorithm>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"
#include "aclnn/src/executor.h"
#include "aclnn/src/stream.h"
#include "kernels/cpu/trace.h"

namespace msct {
namespace {

// The bytes from the first to the last element.
struct Range {
  uintptr_t begin;
  uintptr_t end;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

// The addresses of one launch: a repeatable executor's may change for the next.
struct Addresses {
  void* elements[kOperands];  // element 0 of each view; null for those that are not accessed
  Range ranges[kOperands];
};

int32_t read_addresses(const Executor& executor, Addresses* addresses) {
  for (const Operand operand : executor.op) {
    if (!executor.accessed[operand]) continue;
    const View& view = executor.views[operand];
    const auto size = static_cast<int64_t>(aclDataTypeSize(view.dtype));
    char* storage = static_cast<char*>(executor.storage[operand].load());
    if (storage == nullptr) {
      return fail(ACLNN_ERR_PARAM_NULLPTR, executor.op.name, "the data of %s must not be null", kOperandNames[operand]);
    }
    char* element = storage + view.offset * size;
    const auto begin = reinterpret_cast<uintptr_t>(element);
    if (begin % size != 0) {
      return fail(ACLNN_ERR_PARAM_INVALID, executor.op.name, "the data of %s must be aligned to %lld bytes, got %p",
                  kOperandNames[operand], number(size), static_cast<const void*>(storage));
    }
    addresses->elements[operand] = element;
    addresses->ranges[operand] = {begin, begin + view.span * size};
  }
  return ACLNN_SUCCESS;
}

// Refuses what certainly shares memory. Views with gaps may lie between each other's elements and are let through.
int32_t check_overlaps(const Executor& executor, const Addresses& addresses, const void* workspace) {
  const Operator& op = executor.op;
  for (const Operand* output = op.first_output(); output != op.end(); ++output) {
    for (const Operand* other = op.begin(); other != output; ++other) {
      if (executor.views[*output].has_gaps || executor.views[*other].has_gaps) continue;
      if (addresses.ranges[*output].overlaps(addresses.ranges[*other])) {
        return fail(ACLNN_ERR_PARAM_INVALID, op.name, "%s must not share memory with %s", kOperandNames[*output],
                    kOperandNames[*other]);
      }
    }
  }
  const auto begin = reinterpret_cast<uintptr_t>(workspace);
  const Range scratch = {begin, begin + executor.workspace_bytes};
  for (const Operand operand : op) {
    if (addresses.ranges[operand].overlaps(scratch)) {
      return fail(ACLNN_ERR_PARAM_INVALID, op.name, "workspace must not share memory with %s", kOperandNames[operand]);
    }
  }
  return ACLNN_SUCCESS;
}

int32_t check_workspace(const Executor& executor, const void* workspace, uint64_t size) {
  const char* name = executor.op.name;
  const auto needed = static_cast<uint64_t>(executor.workspace_bytes);
  if (needed == 0) return ACLNN_SUCCESS;
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, name, {{"workspace", workspace}})) return status;
  if (size >= needed) return ACLNN_SUCCESS;
  return fail(ACLNN_ERR_PARAM_INVALID, name, "workspaceSize must be at least %lld, got %lld", number(needed),
              number(size));
}

// Bytes of all tensors that are read or written.
int64_t bytes_of(const Executor& executor) {
  int64_t bytes = 0;
  for (const Operand operand : executor.op) {
    const View& view = executor.views[operand];
    if (executor.accessed[operand]) bytes += view.count * static_cast<int64_t>(aclDataTypeSize(view.dtype));
  }
  return bytes;
}

// filters: those of the executor when it was launched.
void run(const Executor& executor, const Addresses& addresses, void* workspace, FilterCache* filters) {
  TraceMark mark(TracePhase::kRun);
  if (mark) {
    mark.describe(executor.op.name, executor.views[kX].shape, executor.views[kFilter].shape, bytes_of(executor));
  }
  executor.run(addresses.elements, workspace, filters);
}

int32_t check_and_launch(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* handle,
                         aclrtStream stream_handle) {
  std::shared_ptr<Executor> executor;
  if (int32_t status = find_executor(op.name, handle, &executor)) return status;
  if (&executor->op != &op) {
    return fail(ACLNN_ERR_PARAM_INVALID, op.name, "executor must be one for %s, got one for %s", op.name,
                executor->op.name);
  }
  if (int32_t status = check_workspace(*executor, workspace, workspace_size)) return status;
  Addresses addresses = {};
  if (int32_t status = read_addresses(*executor, &addresses)) return status;
  if (int32_t status = check_overlaps(*executor, addresses, workspace)) return status;
  std::shared_ptr<Stream> stream;
  if (stream_handle != nullptr && find_stream(op.name, stream_handle, &stream) != 0) {
    return ACLNN_ERR_RUNTIME_ERROR;
  }
  // All is well: from here on the executor is used up.
  if (!executor->repeatable && executors().erase(handle) == nullptr) return executor_is_dead(op.name);
  if (std::none_of(op.begin(), op.end(), [&](Operand operand) { return executor->accessed[operand]; })) {
    return ACLNN_SUCCESS;
  }
  const std::shared_ptr<FilterCache> filters = std::atomic_load(&executor->filters);
  if (stream == nullptr) {
    run(*executor, addresses, workspace, filters.get());
  } else {
    stream->enqueue([executor, addresses, workspace, filters]() -> int32_t {
      run(*executor, addresses, workspace, filters.get());
      return ACLNN_SUCCESS;
    });
  }
  return ACLNN_SUCCESS;
}

}  // namespace

int32_t launch(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* handle,
               aclrtStream stream_handle) {
  const TraceMark mark(TracePhase::kPhase2);
  return guarded(ACLNN_ERR_RUNTIME_ERROR, op.name,
                 [&] { return check_and_launch(op, workspace, workspace_size, handle, stream_handle); });
}

}  // namespace msct
