// Dispatch: (features, options, problem) -> plan. Pure functions: no state, no environment, no clock.
#ifndef MS_CONVTANH_KERNELS_DISPATCH_PLAN_H_
#define MS_CONVTANH_KERNELS_DISPATCH_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernels/cpu/k1_conv.h"
#include "kernels/problem.h"

namespace msct {

struct K1Variant;
struct K2Variant;

enum class Fusion : int64_t {
  kAuto,  // only in a request: dispatch decides
  kHalf,  // K1 writes fp32 wsT [n, co, ho, wo] to the workspace, then K2 reads it: two kernels
  kTrue,  // K2 runs on each K1 block while it is in cache
};

// Sizes that dispatch chooses for any CPU, and that a measurement on one may better. 0 leaves dispatch its own choice.
// None of them changes a result; the size of a K step, which may, is not among them.
struct Tuning {
  int64_t block_channels = 0;     // output channels in a block
  int64_t tile_elements = 0;      // output elements of a block
  int64_t packed_elements = 0;    // packed input elements of a block and K step
  int64_t blocks_per_thread = 0;  // blocks that there are at least for each thread
};

struct DispatchOptions {
  uint32_t features;  // allowed features: detected, below the ceiling
  Fusion fusion;
  int64_t threads;    // upper bound, >= 1
  const char* k1 = nullptr;  // the K1 variant to take wherever it can compute the problem; null: any
  int64_t k1_candidate = 0;  // which of the candidates, 0 being the cheapest; the last one if there are fewer
  Tuning tuning = {};
  bool plain = false;  // x as planes of float32 and no other scheme: the gradient of the filter reads them
};

// How K1's blocks cut the problem. All counts are >= 1 unless the output is empty.
struct Tiling {
  int64_t rows;  // output rows in a block
  int64_t cols;  // output columns in a block, a multiple of the vector length unless it is all of wo
  int64_t co;    // output channels in a block, a multiple of K1's panel height unless it is all of co / groups
  int64_t ci;    // input channels in a K step: the reduction runs over blocks of ci * kh * kw terms
};

struct Plan {
  ConvTanhProblem problem;  // as executed: after lengthen_rows
  const K1Variant* k1;
  K1Scheme scheme;
  const K2Variant* k2;
  Fusion fusion;            // kHalf or kTrue
  Tuning tuning;            // as asked for
  Tiling tiling;
  const K1Variant* precise_k1;  // what computes the images whose values k1 loses accuracy with; null: there are none
  int64_t range_offset;     // bytes from the workspace's aligned start to what the check needs
  int64_t direct;           // 1: K1 reads x in place wherever a block allows it, without packing
  int64_t filter_in_place;  // 1: K1 reads the filter without packing
  int64_t images_are_pixels;  // 1: the problem's row of pixels was a batch of images
  int64_t filter_group_stride;  // elements between the filters of neighbouring groups
  // Set in the convolutions that the backward operator is made of.
  int64_t linear;           // 1: K2 only rounds
  int64_t gated;            // 1: x is gradY, multiplied by 1 - y * y while it is packed
  int64_t gate_strides[4];  // of y
  int64_t threads;          // threads that take part, 1 for small problems
  int64_t workspace_bytes;  // what phase 2 needs; 0 for an empty output, INT64_MAX if beyond 2^60: not executable
};

Plan make_plan(const DispatchOptions& options, const ConvTanhProblem& problem);

// The strides of the tensors that a call touches, by the operand whose shape they have: the backward operator has
// several of each.
struct TensorStrides {
  std::vector<int64_t*> x, filter, y;
};

// Rewrites a problem, where its strides allow it, so that one row of pixels becomes as long as it can:
// a 1x1 convolution has the rows of each image joined into one; where the filter covers all of x, as in the last
// convolution of LeNet-5, the taps become channels of a 1x1 convolution and the images its pixels, if there are
// `least_images` of them; then it returns true.
bool lengthen_rows(ConvTanhProblem* problem, const TensorStrides& strides, int64_t least_images = 2);

// What computes the images that k1 does not, if there is a precise_k1. Needs no more workspace than the plan.
Plan precise_plan(const Plan& plan);

// Completes a plan that has its problem, filter_group_stride, linear and gate.
void finish_plan(const DispatchOptions& options, Plan* plan);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_DISPATCH_PLAN_H_
