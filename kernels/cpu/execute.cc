#include "kernels/cpu/execute.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "kernels/cpu/filter_cache.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/packed_filter.h"
#include "kernels/cpu/range_check.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/trace.h"

namespace msct {

namespace {

// A part of the output that one task computes: channels of one group, rows and columns of one image.
struct Block {
  int64_t n, group;
  int64_t co, co_count;  // within the group
  int64_t row, rows;
  int64_t col, cols;
};

// Set where images are not to be computed by Winograd's tiles: winograd_is_accurate.
using ImageFlag = std::atomic<bool>;

class Run {
 public:
  // inaccurate: one for each image, if the plan uses Winograd's tiles.
  Run(const Plan& plan, const ConvTanhTensors& tensors, const void* gate, void* workspace, FilterCache* filters,
      ImageFlag* inaccurate = nullptr)
      : plan_(plan),
        p_(plan.problem),
        layout_(make_layout(plan)),
        packing_(plan_, layout_),
        k1_(plan.k1->kernel),
        k2_row_((plan.linear ? plan.k2->kernel.plain_row : plan.k2->kernel.row)[static_cast<int>(p_.dtype)]),
        tensors_(tensors),
        gate_(gate),
        base_(aligned(workspace)),
        filters_(filters),
        inaccurate_(inaccurate) {}

  void operator()() {
    write_k_offsets(plan_, layout_, at<int64_t>(layout_.packed_offsets), at<int64_t>(layout_.direct_offsets));
    pack_bias();
    const std::shared_ptr<const KeptFilter> kept =
        filters_ == nullptr ? nullptr : filters_->find(plan_, tensors_.filter);
    if (kept != nullptr) {
      packed_ = packed_filter_of(*kept);
    } else if (!plan_.filter_in_place) {
      packed_ = packing_.pack(tensors_.filter, at<float>(layout_.filter));
    }
    const int64_t blocks = p_.n * p_.groups * layout_.row_blocks * layout_.col_blocks * layout_.co_blocks;
    parallel_for(blocks, plan_.threads, [&](int64_t task, int64_t slot) {
      const Block block = make_block(task);
      run_k1(block, slot);
      if (plan_.fusion == Fusion::kTrue && !writes_in_place(block)) run_k2(block, slot);
    });
    if (plan_.fusion == Fusion::kHalf) {
      parallel_for(blocks, plan_.threads, [&](int64_t task, int64_t slot) { run_k2(make_block(task), slot); });
    }
  }

 private:
  template <typename T>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  const void* element(const void* data, int64_t offset) const {
    return static_cast<const char*>(data) + offset * size_of(p_.dtype);
  }

  Block make_block(int64_t task) const {
    const auto take = [&task](int64_t count) {
      const int64_t index = task % count;
      task /= count;
      return index;
    };
    const Tiling& tiling = plan_.tiling;
    Block block;
    block.co = take(layout_.co_blocks) * tiling.co;
    block.col = take(layout_.col_blocks) * tiling.cols;
    block.row = take(layout_.row_blocks) * tiling.rows;
    block.group = take(p_.groups);
    block.n = task;
    block.co_count = std::min(tiling.co, layout_.co_group - block.co);
    block.cols = std::min(tiling.cols, p_.wo - block.col);
    block.rows = std::min(tiling.rows, p_.ho - block.row);
    return block;
  }

  void pack_bias() const {
    const TraceMark mark(TracePhase::kPack);
    const void* source = p_.has_bias ? tensors_.bias : nullptr;
    k1_.pack_bias(source, p_.dtype, p_.bias_stride, p_.co, at<float>(layout_.bias));
    if (is_spread() || is_winograd()) {
      k1_.pack_bias(nullptr, p_.dtype, 0, plan_.tiling.co * plan_.scheme.spread_w, at<float>(layout_.zeros));
    }
  }

  // The part of the filter for a block and K step, packed or in place.
  const float* filter(const Block& block, int64_t ci) const {
    if (!plan_.filter_in_place) return packed_.data + packing_.offset(block.group, ci, block.co);
    return static_cast<const float*>(element(tensors_.filter, packing_.source_offset(block.group, ci, block.co)));
  }

  const float* bias(const Block& block) const {
    return at<float>(layout_.bias) + (block.group * layout_.co_group + block.co) * k1_.bias_width;
  }

  float* partial(int64_t slot) const {
    return at<float>(layout_.scratch + slot * layout_.scratch_stride + layout_.scratch_partial);
  }

  float* tile(int64_t slot) const {
    return at<float>(layout_.scratch + slot * layout_.scratch_stride + layout_.scratch_tile);
  }

  // Where the block's output in float32 lies, element (0, 0, 0).
  float* output(const Block& block, int64_t slot) const {
    if (plan_.fusion == Fusion::kTrue) return tile(slot);
    const int64_t channel = block.n * p_.co + block.group * layout_.co_group + block.co;
    return at<float>(layout_.wst) + channel * layout_.c_m_stride + block.row * layout_.c_row_stride + block.col;
  }

  // x can be read in place if every whole vector of the block lies inside its row.
  bool reads_in_place(const Block& block, int64_t vectors) const {
    if (!plan_.direct) return false;
    const int64_t first = block.col - p_.pad_left;
    const int64_t first_row = block.row * p_.stride_h - p_.pad_top;
    const int64_t last_row = (block.row + block.rows - 1) * p_.stride_h - p_.pad_top;
    return first >= 0 && first + vectors * k1_.lanes <= p_.wi && first_row >= 0 && last_row < p_.hi;
  }

  // A linear float32 result needs no K2: K1 writes y itself, if whole vectors fit.
  bool writes_in_place(const Block& block) const {
    return plan_.linear && !is_spread() && plan_.fusion == Fusion::kTrue && p_.dtype == DType::kFloat32 &&
           p_.y_strides[3] == 1 && block.cols % k1_.lanes == 0;
  }

  // Of a K step of ci_count channels, padding not counted.
  int64_t operations(const Block& block, int64_t ci_count) const {
    return 2 * block.co_count * block.rows * block.cols * ci_count * p_.kh * p_.kw;
  }

  bool is_spread() const { return plan_.scheme.spread_w > 1; }
  bool is_winograd() const { return plan_.scheme.winograd != 0; }

  // Without the addresses of a and b.
  K1Block make_k1_block(const Block& block, int64_t slot) const {
    K1Block part = {};
    const int64_t cols = block.cols + layout_.more_columns;
    part.m = block.co_count * plan_.scheme.spread_w;
    part.rows = layout_.flat ? 1 : block.rows;
    part.vectors = ceil_div(layout_.flat ? (block.rows - 1) * layout_.pitch + cols : cols, k1_.lanes);
    part.depth = plan_.scheme.depth;
    part.plane_stride = layout_.plane_stride;
    part.bias = bias(block);
    part.a_m_stride = plan_.filter_in_place ? p_.filter_strides[0] : 0;
    if (is_spread()) {
      part.c = partial(slot);
      part.c_row_stride = layout_.partial_row_stride;
      part.c_m_stride = layout_.partial_m_stride;
      part.bias = at<float>(layout_.zeros);
    } else if (writes_in_place(block)) {
      part.c = reinterpret_cast<float*>(y_of(block));
      part.c_row_stride = p_.y_strides[2];
      part.c_m_stride = p_.y_strides[1];
    } else {
      part.c = output(block, slot);
      part.c_row_stride = layout_.c_row_stride;
      part.c_m_stride = layout_.c_m_stride;
    }
    return part;
  }

  void run_k1(const Block& block, int64_t slot) const {
    if (is_winograd()) {
      run_winograd(block, slot);
      return;
    }
    K1Block part = make_k1_block(block, slot);
    const bool in_place = reads_in_place(block, part.vectors);
    part.k_offset = at<int64_t>(in_place ? layout_.direct_offsets : layout_.packed_offsets);
    part.b_row_stride = in_place ? p_.stride_h * p_.x_strides[2] : layout_.pitch;
    float* packed = at<float>(layout_.scratch + slot * layout_.scratch_stride);
    const int64_t x_offset = block.n * p_.x_strides[0] + block.group * layout_.ci_group * p_.x_strides[1];

    int64_t ci = 0;
    do {  // once even if there are no input channels, for the bias
      const int64_t ci_count = std::min(plan_.tiling.ci, layout_.ci_group - ci);
      const void* source = element(tensors_.x, x_offset + ci * p_.x_strides[1]);
      if (in_place) {
        part.b = static_cast<const float*>(source) + (block.row * p_.stride_h - p_.pad_top) * p_.x_strides[2] +
                 block.col * p_.stride_w - p_.pad_left;
      } else {
        const TraceMark mark(TracePhase::kPack);
        K1Input input = make_k1_input(plan_, layout_, source, ci_count, block.row, block.col);
        if (plan_.gated) {
          const int64_t* strides = plan_.gate_strides;
          const int64_t channel = block.group * layout_.ci_group + ci;
          input.gate = element(gate_, block.n * strides[0] + channel * strides[1]);
          std::copy(strides + 1, strides + 4, input.gate_strides);
        }
        k1_.pack_input(input, packed);
        part.b = packed;
      }
      part.k = packing_.entries(ci);
      part.a = filter(block, ci);
      {
        const TraceMark mark(TracePhase::kK1, operations(block, ci_count));
        k1_.run(part);
      }
      part.bias = nullptr;
      ci += plan_.tiling.ci;
    } while (ci < layout_.ci_group);
    if (is_spread()) add_taps(block, slot);
  }

  void add_taps(const Block& block, int64_t slot) const {
    K1Taps taps;
    taps.m = block.co_count;
    taps.taps = plan_.scheme.spread_w;
    taps.step = p_.dilation_w;
    taps.rows = block.rows;
    taps.vectors = ceil_div(block.cols, k1_.lanes);
    taps.partial = partial(slot);
    taps.partial_row_stride = layout_.partial_row_stride;
    taps.partial_m_stride = layout_.partial_m_stride;
    taps.bias = bias(block);
    taps.c = output(block, slot);
    taps.c_row_stride = layout_.c_row_stride;
    taps.c_m_stride = layout_.c_m_stride;
    k1_.add_taps(taps);
  }

  void run_winograd(const Block& block, int64_t slot) const {
    const WinogradTiles tiles = {ceil_div(block.rows, 2), ceil_div(block.cols, 2), layout_.tile_stride,
                                 layout_.transformed_stride};
    float* plane = at<float>(layout_.scratch + slot * layout_.scratch_stride);
    float* transformed = at<float>(layout_.scratch + slot * layout_.scratch_stride + layout_.scratch_transformed);
    float* products = partial(slot);
    K1Block part = {};
    part.m = block.co_count;
    part.k_offset = at<int64_t>(layout_.packed_offsets);
    part.rows = 1;
    part.vectors = ceil_div(tiles.rows * tiles.columns, k1_.lanes);
    part.c_m_stride = layout_.tile_stride;
    part.bias = at<float>(layout_.zeros);
    const int64_t x_offset = block.n * p_.x_strides[0] + block.group * layout_.ci_group * p_.x_strides[1];
    int64_t ci = 0;
    do {  // once even if there are no input channels, for the bias
      const int64_t ci_count = std::min(plan_.tiling.ci, layout_.ci_group - ci);
      const void* source = element(tensors_.x, x_offset + ci * p_.x_strides[1]);
      {
        const TraceMark mark(TracePhase::kPack);
        const K1Input input = make_k1_input(plan_, layout_, source, ci_count, block.row, block.col);
        const uint32_t largest = k1_.winograd->pack_input(input, tiles, plane, transformed);
        if (!winograd_is_accurate(largest, packed_.largest, layout_.ci_group * p_.kh * p_.kw)) {
          inaccurate_[block.n].store(true, std::memory_order_relaxed);
        }
      }
      const TraceMark mark(TracePhase::kK1, operations(block, ci_count));
      part.k = ci_count;
      for (int64_t position = 0; position < kWinogradPositions; ++position) {
        part.a = filter(block, ci) + position * layout_.filter_position;
        part.b = transformed + position * layout_.transformed_stride;
        part.c = products + position * layout_.products_stride;
        k1_.run(part);
      }
      part.bias = nullptr;
      ci += plan_.tiling.ci;
    } while (ci < layout_.ci_group);
    const TraceMark mark(TracePhase::kK1);
    const WinogradTiles sums = {tiles.rows, tiles.columns, layout_.tile_stride, layout_.products_stride};
    k1_.winograd->add_products(sums, products, bias(block), block.co_count, tile(slot), layout_.tile_row_stride,
                               layout_.tile_m_stride);
    if (plan_.fusion == Fusion::kHalf) copy_tile(block, slot);
  }

  // Whole vectors of tiles reach beyond the block, and may not be written to wsT.
  void copy_tile(const Block& block, int64_t slot) const {
    for (int64_t co = 0; co < block.co_count; ++co) {
      for (int64_t row = 0; row < block.rows; ++row) {
        std::memcpy(output(block, slot) + co * layout_.c_m_stride + row * layout_.c_row_stride,
                    tile(slot) + co * layout_.tile_m_stride + row * layout_.tile_row_stride,
                    static_cast<size_t>(block.cols) * sizeof(float));
      }
    }
  }

  // Element (0, 0, 0) of the block in y.
  char* y_of(const Block& block) const {
    const int64_t channel = block.group * layout_.co_group + block.co;
    const int64_t offset = block.n * p_.y_strides[0] + channel * p_.y_strides[1] + block.row * p_.y_strides[2] +
                           block.col * p_.y_strides[3];
    return static_cast<char*>(tensors_.y) + offset * size_of(p_.dtype);
  }

  void run_k2(const Block& block, int64_t slot) const {
    const TraceMark mark(TracePhase::kK2);
    const float* z = output(block, slot);
    char* y = y_of(block);
    for (int64_t co = 0; co < block.co_count; ++co) {
      for (int64_t row = 0; row < block.rows; ++row) {
        store_row(z + co * layout_.c_m_stride + row * layout_.c_row_stride,
                  y + (co * p_.y_strides[1] + row * p_.y_strides[2]) * size_of(p_.dtype), block.cols);
      }
    }
  }

  void store_row(const float* z, char* y, int64_t n) const {
    if (p_.y_strides[3] == 1) {
      k2_row_(z, y, n);
    } else if (p_.dtype == DType::kFloat32) {
      scatter_row<float>(z, reinterpret_cast<float*>(y), n);
    } else {
      scatter_row<uint16_t>(z, reinterpret_cast<uint16_t*>(y), n);
    }
  }

  template <typename Element>
  void scatter_row(const float* z, Element* y, int64_t n) const {
    constexpr int64_t kChunk = 256;
    Element chunk[kChunk];
    for (int64_t start = 0; start < n; start += kChunk) {
      const int64_t size = std::min(kChunk, n - start);
      k2_row_(z + start, chunk, size);
      for (int64_t i = 0; i < size; ++i) y[(start + i) * p_.y_strides[3]] = chunk[i];
    }
  }

  const Plan& plan_;
  const ConvTanhProblem& p_;
  const Layout layout_;
  const FilterPacking packing_;
  const K1Kernel& k1_;
  void (*const k2_row_)(const float* z, void* y, int64_t n);
  const ConvTanhTensors& tensors_;
  const void* const gate_;
  char* const base_;
  FilterCache* const filters_;
  PackedFilter packed_ = {};
  ImageFlag* const inaccurate_;
};

void run_images(Plan plan, const ConvTanhTensors& tensors, void* workspace, FilterCache* filters, int64_t begin,
                int64_t end) {
  const ConvTanhProblem& p = plan.problem;
  ConvTanhTensors images = tensors;
  images.x = static_cast<const char*>(tensors.x) + begin * p.x_strides[0] * size_of(p.dtype);
  images.y = static_cast<char*>(tensors.y) + begin * p.y_strides[0] * size_of(p.dtype);
  plan.problem.n = end - begin;
  Run(plan, images, nullptr, workspace, filters)();
}

// Images as k1 computes them, and those that are out of its range as precise_k1 does, in runs of either.
void execute_checked(const Plan& plan, const ConvTanhTensors& tensors, void* workspace, FilterCache* filters) {
  const char* out_of_range = find_images_out_of_range(plan, tensors, aligned(workspace) + plan.range_offset);
  for (int64_t n = 0, end = 0; n < plan.problem.n; n = end) {
    while (end < plan.problem.n && out_of_range[end] == out_of_range[n]) ++end;
    run_images(out_of_range[n] ? precise_plan(plan) : plan, tensors, workspace, filters, n, end);
  }
}

// Winograd's tiles find on the way which images they do not suit; those are computed again.
void execute_winograd(const Plan& plan, const ConvTanhTensors& tensors, void* workspace, FilterCache* filters) {
  const int64_t images = plan.problem.n;
  ImageFlag* inaccurate = reinterpret_cast<ImageFlag*>(aligned(workspace) + plan.range_offset);
  for (int64_t n = 0; n < images; ++n) new (inaccurate + n) ImageFlag(false);
  Run(plan, tensors, nullptr, workspace, filters, inaccurate)();
  for (int64_t n = 0, end = 0; n < images; n = end) {
    while (end < images && inaccurate[end] == inaccurate[n]) ++end;
    if (inaccurate[n]) run_images(precise_plan(plan), tensors, workspace, filters, n, end);
  }
}

}  // namespace

void execute(const Plan& plan, const ConvTanhTensors& tensors, void* workspace, const void* gate,
             FilterCache* filters) {
  if (plan.workspace_bytes == 0) return;
  if (plan.scheme.winograd) {
    execute_winograd(plan, tensors, workspace, filters);
  } else if (plan.precise_k1) {
    execute_checked(plan, tensors, workspace, filters);
  } else {
    Run(plan, tensors, gate, workspace, filters)();
  }
}

}  // namespace msct
