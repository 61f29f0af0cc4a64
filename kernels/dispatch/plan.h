// Dispatch: (features, options, problem) -> plan. Pure functions: no state, no environment, no clock.
#ifndef MS_CONVTANH_KERNELS_DISPATCH_PLAN_H_
#define MS_CONVTANH_KERNELS_DISPATCH_PLAN_H_

#include <cstdint>
#include <initializer_list>

#include "kernels/problem.h"

namespace msct {

struct K1Variant;
struct K2Variant;

enum class Fusion : int64_t {
  kAuto,  // only in a request: dispatch decides
  kHalf,  // K1 writes fp32 wsT [n, co, ho, wo] to the workspace, then K2 reads it: two kernels
  kTrue,  // K2 runs on each K1 block while it is in cache
};

struct DispatchOptions {
  uint32_t features;  // allowed features: detected, below the ceiling
  Fusion fusion;
  int64_t threads;    // upper bound, >= 1
};

// How K1's blocks cut the problem. All counts are >= 1 unless the output is empty.
struct Tiling {
  int64_t rows;  // output rows in a block
  int64_t cols;  // output columns in a block, a multiple of the vector length unless it is all of wo
  int64_t co;    // output channels in a block, a multiple of K1's panel height unless it is all of co / groups
  int64_t ci;    // input channels in a K step: the reduction runs over blocks of ci * kh * kw terms
};

struct Plan {
  ConvTanhProblem problem;  // as executed: 1x1 problems have their rows joined into one
  const K1Variant* k1;
  const K2Variant* k2;
  Fusion fusion;            // kHalf or kTrue
  Tiling tiling;
  int64_t direct;           // 1: K1 reads x in place wherever a block allows it, without packing
  int64_t filter_group_stride;  // elements between the filters of neighbouring groups
  // Set in the convolutions that the backward operator is made of.
  int64_t linear;           // 1: K2 only rounds
  int64_t gated;            // 1: x is gradY, multiplied by 1 - y * y while it is packed
  int64_t gate_strides[4];  // of y
  int64_t threads;          // threads that take part, 1 for small problems
  int64_t workspace_bytes;  // what phase 2 needs; 0 for an empty output, INT64_MAX if beyond 2^60: not executable
};

Plan make_plan(const DispatchOptions& options, const ConvTanhProblem& problem);

// A 1x1 convolution is one long row, if the rows of all its tensors follow each other.
bool can_join_rows(const ConvTanhProblem& problem, std::initializer_list<const int64_t*> strides);
void join_rows(ConvTanhProblem* problem);

// Completes a plan that has its problem, filter_group_stride, linear and gate.
void finish_plan(const DispatchOptions& options, Plan* plan);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_DISPATCH_PLAN_H_
