// The host tiling of the Ascend kernels: the C++ twin of conv_common.py, which explains it. A test compares the two
// number for number. No CANN type is needed here.
#ifndef MS_CONVTANH_KERNELS_ASCEND_CONV_TILING_H_
#define MS_CONVTANH_KERNELS_ASCEND_CONV_TILING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/problem.h"

namespace msct {
namespace ascend {

constexpr int64_t kSubBlocks = 2;  // vector cores (AIV) per Cube core (AIC)

// TilingData of K0. Sizes in elements.
struct PackTiling {
  int64_t pack_x;  // 0: K1 reads x itself, only the filter is packed
  int64_t images;
  int64_t groups;
  int64_t channels;  // of x, per group
  int64_t channel_step;  // planes per phase
  int64_t planes;  // per image and group; a multiple of 16
  int64_t phases;
  int64_t phases_w;  // phase = phase row * phases_w + phase column
  int64_t phase_step_h;  // distance of neighbouring phases in x: 1, or the dilation where taps are folded
  int64_t phase_step_w;
  int64_t height;  // of x
  int64_t width;
  int64_t rows;  // of a plane
  int64_t pitch;
  int64_t stride_h;
  int64_t stride_w;
  int64_t pad_top;
  int64_t pad_left;
  int64_t tile_columns;  // destination columns per copy
  int64_t block_rows;  // rows of a plane per work item
  int64_t blocks;  // work items per plane
  int64_t out_channels;
  int64_t taps;  // kh * kw
  int64_t k_size;  // columns of filter_packed without the bias block
  int64_t k_total;  // with it
  int64_t has_bias;
  int64_t ones_offset;  // of the ones block in filter_packed
  int64_t items;  // work items in all
};

// TilingData of K1 and K12. Sizes in elements.
struct ConvTiling {
  int64_t images;
  int64_t groups;
  int64_t m;  // output channels per group
  int64_t p;  // flat output pixels per image: (ho - 1) * pitch + wo
  int64_t k_channels;  // channels per tap, padded
  int64_t taps;
  int64_t taps_w;
  int64_t stride_h;
  int64_t stride_w;
  int64_t dilation_h;
  int64_t dilation_w;
  int64_t phases_w;
  int64_t planes;
  int64_t pitch;
  int64_t plane_size;
  int64_t k_size;
  int64_t k_total;
  int64_t has_bias;
  int64_t ones_offset;
  int64_t z_pitch;  // floats between neighbouring channels of wsT: ho * pitch
  int64_t tiles_m;
  int64_t tiles_n;
  int64_t tiles;  // images * groups * tiles_m * tiles_n
  int64_t out_rows;  // y per channel as [out_rows, out_columns], whose rows lie out_pitch apart in z
  int64_t out_columns;
  int64_t out_pitch;
};

// TilingData of K2. wsT as [rows, columns] with z_pitch floats between rows; y is contiguous.
struct TanhTiling {
  int64_t rows;
  int64_t columns;
  int64_t z_pitch;
  int64_t tile_rows;
  int64_t tile_columns;
  int64_t tiles_columns;
  int64_t tiles;
};

// What one kernel is launched with.
template <typename Tiling>
struct Launch {
  Tiling tiling;
  uint64_t key;    // TilingKey
  int64_t blocks;  // block_dim: Cube cores
};

struct Plan {
  Launch<PackTiling> pack;
  Launch<ConvTiling> conv;
  Launch<TanhTiling> tanh;
  DType compute_dtype;  // of the products
  // Elements of what lies between the kernels: x_packed and filter_packed in compute_dtype, wst in float32. x_packed is
  // 0 if K1 reads x itself, wst with true fusion.
  int64_t x_packed_elements, filter_packed_elements, wst_elements;
};

// The plan on `cores` Cube cores; fused: K12 instead of K1 and K2. Strides of the problem's tensors are not looked at:
// they are contiguous. Returns false, with the reason in *error, for planes beyond the copy engines' 32-bit strides.
bool make_tiling(const ConvTanhProblem& problem, int64_t cores, bool fused, Plan* plan, std::string* error);

// A problem and the fusion as a list of numbers and back: how they travel to the kernels' operators, as their attribute
// `problem`. K0 needs the fusion as well: what K12 reads has another pitch.
std::vector<int64_t> problem_list(const ConvTanhProblem& problem, bool fused);
bool problem_of_list(const int64_t* values, size_t count, ConvTanhProblem* problem, bool* fused);

}  // namespace ascend
}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_ASCEND_CONV_TILING_H_
