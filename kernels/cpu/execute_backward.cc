#include "kernels/cpu/execute_backward.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/execute.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/trace.h"

namespace msct {

namespace {

template <typename Data>
Data* element(Data* data, int64_t offset, DType dtype) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
  return static_cast<Byte*>(data) + offset * size_of(dtype);
}

void clear_grad_x(const BackwardPlan& plan, void* grad_x) {
  const ConvTanhProblem& p = plan.problem.forward;
  const int64_t* strides = plan.problem.grad_x_strides;
  const int64_t size = size_of(p.dtype);
  parallel_for(p.n * p.ci, plan.threads, [&](int64_t task, int64_t) {
    const int64_t plane = task / p.ci * strides[0] + task % p.ci * strides[1];
    for (int64_t h = 0; h < p.hi; ++h) {
      char* row = static_cast<char*>(element(grad_x, plane + h * strides[2], p.dtype));
      if (strides[3] == 1) {
        std::memset(row, 0, static_cast<size_t>(p.wi * size));
      } else {
        for (int64_t w = 0; w < p.wi; ++w) std::memset(row + w * strides[3] * size, 0, static_cast<size_t>(size));
      }
    }
  });
}

class GradFilterRun {
 public:
  GradFilterRun(const BackwardPlan& plan, const BackwardTensors& tensors, char* base)
      : problem_(plan.problem),
        p_(plan.problem.forward),
        plan_(plan.grad_filter),
        tiling_(plan_.forward.tiling),
        layout_(make_layout(plan_.forward)),
        k1_(plan_.forward.k1->kernel),
        tensors_(tensors),
        base_(base) {}

  void operator()() const {
    int64_t* offsets = at<int64_t>(plan_.offsets);
    write_k_offsets(plan_.forward, layout_, plan_.reads_in_place ? nullptr : offsets,
                    plan_.reads_in_place ? offsets : nullptr);
    // Without gradFilter only the sums of dz are needed: one step, no columns.
    const int64_t steps = problem_.wants_filter ? std::max<int64_t>(1, ceil_div(layout_.ci_group, tiling_.ci)) : 1;
    const int64_t parts = p_.groups * steps;
    parallel_for(parts * plan_.chunks, plan_.threads,
                 [&](int64_t task, int64_t slot) { sum_chunk(task / parts, task % parts, steps, slot); });
    parallel_for(p_.co, plan_.threads, [&](int64_t co, int64_t) { store_channel(co); });
  }

 private:
  template <typename T>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  int64_t row_size() const { return layout_.ci_group * layout_.taps; }  // of gradFilter, for one output channel

  // The products of one step's input channels with all output channels of their group, over a chunk of blocks: x of a
  // block is packed once.
  void sum_chunk(int64_t chunk, int64_t part, int64_t steps, int64_t slot) const {
    const int64_t ci = part % steps * tiling_.ci;
    const int64_t group = part / steps;
    const int64_t first_channel = group * layout_.co_group;
    const int64_t ci_count = problem_.wants_filter ? std::min(tiling_.ci, layout_.ci_group - ci) : 0;

    GradFilterBlock block = {};
    block.columns = ci_count * layout_.taps;
    block.a = at<float>(plan_.scratch + slot * plan_.scratch_stride + plan_.scratch_dz);
    block.a_row_stride = plan_.dz_row_stride;
    block.a_m_stride = tiling_.rows * plan_.dz_row_stride;
    block.b_offset = at<int64_t>(plan_.offsets);
    block.sums_m_stride = row_size();
    double* sums = at<double>(plan_.sums) + (chunk * p_.co + first_channel) * row_size() + ci * layout_.taps;
    for (int64_t m = 0; m < layout_.co_group; ++m) std::fill_n(sums + m * row_size(), block.columns, 0.0);
    double* bias_sums =
        problem_.wants_bias && ci == 0 ? at<double>(plan_.bias_sums) + chunk * p_.co + first_channel : nullptr;
    if (bias_sums) std::fill_n(bias_sums, layout_.co_group, 0.0);

    const int64_t items = p_.n * layout_.row_blocks * layout_.col_blocks;
    for (int64_t item = chunk * items / plan_.chunks; item < (chunk + 1) * items / plan_.chunks; ++item) {
      const int64_t n = item / layout_.col_blocks / layout_.row_blocks;
      const int64_t row = item / layout_.col_blocks % layout_.row_blocks * tiling_.rows;
      const int64_t col = item % layout_.col_blocks * tiling_.cols;
      block.rows = std::min(tiling_.rows, p_.ho - row);
      block.length = std::min(tiling_.cols, p_.wo - col);
      if (ci_count > 0) find_x(n, group * layout_.ci_group + ci, ci_count, row, col, slot, &block);
      for (int64_t co = 0; co < layout_.co_group; co += tiling_.co) {
        block.m = std::min(tiling_.co, layout_.co_group - co);
        block.sums = sums + co * row_size();
        block.bias_sums = bias_sums ? bias_sums + co : nullptr;
        pack_dz(n, first_channel + co, row, col, block);
        const TraceMark mark(TracePhase::kK1, 2 * block.m * block.columns * block.rows * block.length);
        plan_.kernel->kernel.run(block);
      }
    }
  }

  void pack_dz(int64_t n, int64_t channel, int64_t row, int64_t col, const GradFilterBlock& block) const {
    const TraceMark mark(TracePhase::kPack);
    const int64_t* source = problem_.grad_y_strides;
    const int64_t* gate = p_.y_strides;
    K1Input input = {};
    input.source = element(tensors_.grad_y, n * source[0] + channel * source[1], p_.dtype);
    input.dtype = p_.dtype;
    std::copy(source + 1, source + 4, input.strides);
    input.ci = block.m;
    input.hi = p_.ho;
    // Whole vectors are read: zeros follow the block's last column, also where more columns of dz do.
    input.wi = col + block.length;
    input.top = row;
    input.left = col;
    input.h = input.w = {1, 1, 1, 1};
    input.rows = block.rows;
    input.pitch = plan_.dz_row_stride;
    input.plane_stride = block.a_m_stride;
    input.gate = element(tensors_.y, n * gate[0] + channel * gate[1], p_.dtype);
    std::copy(gate + 1, gate + 4, input.gate_strides);
    k1_.pack_input(input, const_cast<float*>(block.a));
  }

  // Where the block's x lies: in place or packed.
  void find_x(int64_t n, int64_t channel, int64_t ci_count, int64_t row, int64_t col, int64_t slot,
              GradFilterBlock* block) const {
    const int64_t* strides = p_.x_strides;
    const void* source = element(tensors_.x, n * strides[0] + channel * strides[1], p_.dtype);
    if (plan_.reads_in_place) {
      block->b = static_cast<const float*>(source) + row * p_.stride_h * strides[2] + col;
      block->b_row_stride = p_.stride_h * strides[2];
      return;
    }
    float* packed = at<float>(plan_.scratch + slot * plan_.scratch_stride);
    const TraceMark mark(TracePhase::kPack);
    k1_.pack_input(make_k1_input(plan_.forward, layout_, source, ci_count, row, col), packed);
    block->b = packed;
    block->b_row_stride = layout_.pitch;
  }

  // Adds up the chunks, in their order, and rounds.
  void store_channel(int64_t co) const {
    const TraceMark mark(TracePhase::kK2);
    if (problem_.wants_filter) {
      const int64_t* strides = problem_.grad_filter_strides;
      const bool contiguous = strides[3] == 1 && strides[2] == p_.kw && strides[1] == layout_.taps;
      const int64_t run = contiguous ? row_size() : p_.kw;
      for (int64_t first = 0; first < row_size(); first += run) {
        const int64_t ci = first / layout_.taps, kh = first % layout_.taps / p_.kw;
        store(at<double>(plan_.sums) + co * row_size() + first, p_.co * row_size(), run, tensors_.grad_filter,
              co * strides[0] + ci * strides[1] + kh * strides[2], strides[3]);
      }
    }
    if (problem_.wants_bias) {
      store(at<double>(plan_.bias_sums) + co, p_.co, 1, tensors_.grad_bias, co * problem_.grad_bias_stride, 1);
    }
  }

  void store(const double* sums, int64_t chunk_stride, int64_t n, void* to, int64_t offset, int64_t step) const {
    constexpr int64_t kPiece = 256;
    const auto round_to = plan_.forward.k2->kernel.plain_row[static_cast<int>(p_.dtype)];
    const size_t size = static_cast<size_t>(size_of(p_.dtype));
    for (int64_t first = 0; first < n; first += kPiece) {
      const int64_t count = std::min(kPiece, n - first);
      double piece[kPiece] = {};
      for (int64_t chunk = 0; chunk < plan_.chunks; ++chunk) {
        for (int64_t i = 0; i < count; ++i) piece[i] += sums[chunk * chunk_stride + first + i];
      }
      alignas(kAlignment) float values[kPiece] = {};  // K2 reads whole vectors
      for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(piece[i]);
      if (step == 1) {
        round_to(values, element(to, offset + first, p_.dtype), count);
        continue;
      }
      char rounded[kPiece * sizeof(float)];
      round_to(values, rounded, count);
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(element(to, offset + (first + i) * step, p_.dtype), rounded + static_cast<size_t>(i) * size, size);
      }
    }
  }

  const BackwardProblem& problem_;
  const ConvTanhProblem& p_;
  const GradFilterPlan& plan_;
  const Tiling& tiling_;
  const Layout layout_;
  const K1Kernel& k1_;
  const BackwardTensors& tensors_;
  char* const base_;
};

}  // namespace

void execute_backward(const BackwardPlan& plan, const BackwardTensors& tensors, void* workspace) {
  const BackwardProblem& problem = plan.problem;
  const DType dtype = problem.forward.dtype;
  if (plan.clears_grad_x) clear_grad_x(plan, tensors.grad_x);
  for (const GradInputPhase& phase : plan.grad_x) {
    const ConvTanhTensors part = {tensors.grad_y, element(tensors.filter, phase.filter_offset, dtype), nullptr,
                                  element(tensors.grad_x, phase.grad_x_offset, dtype)};
    execute(phase.plan, part, workspace, tensors.y);
  }
  if (plan.grad_filter.kernel) GradFilterRun(plan, tensors, aligned(workspace))();
}

}  // namespace msct
