#include "kernels/dispatch/backward_plan.h"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/registry.h"
#include "kernels/dispatch/features.h"

namespace msct {

namespace {

// Taps whose distance is a multiple of this many reach the same pixels.
int64_t phase_step(int64_t stride, int64_t dilation) { return stride / std::gcd(stride, dilation); }

// One axis of one phase: pixels first, first + stride, ... of x, and the taps that reach them.
struct PhaseAxis {
  int64_t first, pixels;
  int64_t taps, last_tap, tap_step;  // taps last_tap, last_tap - tap_step, ... in this order
  int64_t dilation, pad;             // of the convolution of dz
};

// Output o and tap t reach pixel o * stride + t * dilation - pad. Solved for o, with j the pixel's number in its phase:
// o = j + (first + pad - t * dilation) / stride, for the taps where that is whole: every tap_step-th from the lowest.
std::vector<PhaseAxis> make_phases(int64_t size, int64_t taps, int64_t stride, int64_t dilation, int64_t pad) {
  const int64_t tap_step = phase_step(stride, dilation);
  std::vector<PhaseAxis> phases;
  for (int64_t lowest = 0; lowest < std::min(taps, tap_step); ++lowest) {
    PhaseAxis axis;
    // The first pixel >= 0 that the tap reaches from some, perhaps negative, o.
    axis.first = ((lowest * dilation - pad) % stride + stride) % stride;
    if (axis.first >= size) continue;
    axis.pixels = ceil_div(size - axis.first, stride);
    axis.taps = (taps - 1 - lowest) / tap_step + 1;
    axis.last_tap = lowest + (axis.taps - 1) * tap_step;
    axis.tap_step = tap_step;
    axis.dilation = dilation * tap_step / stride;
    axis.pad = -((axis.first + pad - axis.last_tap * dilation) / stride);
    phases.push_back(axis);
  }
  return phases;
}

GradInputPhase make_phase(const DispatchOptions& options, const BackwardProblem& problem, const PhaseAxis& h,
                          const PhaseAxis& w) {
  const ConvTanhProblem& forward = problem.forward;
  const int64_t* filter = forward.filter_strides;
  const int64_t* grad_x = problem.grad_x_strides;
  GradInputPhase phase = {};
  phase.filter_offset = h.last_tap * filter[2] + w.last_tap * filter[3];
  phase.grad_x_offset = h.first * grad_x[2] + w.first * grad_x[3];
  Plan& plan = phase.plan;
  plan.linear = plan.gated = 1;
  std::copy(forward.y_strides, forward.y_strides + 4, plan.gate_strides);
  plan.filter_group_stride = forward.co / forward.groups * filter[0];
  ConvTanhProblem& p = plan.problem;
  p.dtype = forward.dtype;
  p.n = forward.n;
  p.ci = forward.co;
  p.hi = forward.ho;
  p.wi = forward.wo;
  p.co = forward.ci;
  p.kh = h.taps;
  p.kw = w.taps;
  p.ho = h.pixels;
  p.wo = w.pixels;
  p.stride_h = p.stride_w = 1;
  p.pad_top = h.pad;
  p.pad_left = w.pad;
  p.dilation_h = h.dilation;
  p.dilation_w = w.dilation;
  p.groups = forward.groups;
  p.cube_math_type = forward.cube_math_type;
  std::copy(problem.grad_y_strides, problem.grad_y_strides + 4, p.x_strides);
  const int64_t filter_strides[4] = {filter[1], filter[0], -h.tap_step * filter[2], -w.tap_step * filter[3]};
  std::copy(filter_strides, filter_strides + 4, p.filter_strides);
  const int64_t y_strides[4] = {grad_x[0], grad_x[1], grad_x[2] * forward.stride_h, grad_x[3] * forward.stride_w};
  std::copy(y_strides, y_strides + 4, p.y_strides);
  finish_plan(options, &plan);
  return phase;
}

void plan_grad_x(const DispatchOptions& options, BackwardPlan* plan) {
  const ConvTanhProblem& p = plan->problem.forward;
  if (grad_input_phases(plan->problem) == 0) {
    plan->clears_grad_x = 1;
    return;
  }
  const std::vector<PhaseAxis> rows = make_phases(p.hi, p.kh, p.stride_h, p.dilation_h, p.pad_top);
  const std::vector<PhaseAxis> columns = make_phases(p.wi, p.kw, p.stride_w, p.dilation_w, p.pad_left);
  int64_t pixels = 0;
  for (const PhaseAxis& h : rows) {
    for (const PhaseAxis& w : columns) {
      plan->grad_x.push_back(make_phase(options, plan->problem, h, w));
      plan->threads = std::max(plan->threads, plan->grad_x.back().plan.threads);
      plan->workspace_bytes = std::max(plan->workspace_bytes, plan->grad_x.back().plan.workspace_bytes);
      pixels += h.pixels * w.pixels;
    }
  }
  plan->clears_grad_x = pixels < p.hi * p.wi;
}

// What fits caches, as in plan.cc, and amortises adding up the lanes of each tile.
constexpr int64_t kBlockPixels = 512;
constexpr int64_t kBlockColumns = 288;
constexpr int64_t kBlockChannels = 64;
// At least this many independent tasks, if there are pixels for them.
constexpr int64_t kTasks = 16;

void plan_grad_filter(const DispatchOptions& options, BackwardPlan* plan) {
  const ConvTanhProblem& p = plan->problem.forward;
  GradFilterPlan& grad = plan->grad_filter;
  grad.forward.problem = p;
  DispatchOptions plain_options = options;
  plain_options.plain = true;
  finish_plan(plain_options, &grad.forward);
  const double sums_bytes = 8.0 * kTasks * static_cast<double>(p.co) * static_cast<double>(p.ci / p.groups) *
                            static_cast<double>(p.kh) * static_cast<double>(p.kw);
  if (grad.forward.workspace_bytes == INT64_MAX || sums_bytes > 0x1p60) {
    plan->workspace_bytes = INT64_MAX;
    return;
  }
  grad.kernel = best_variant(grad_filter_variants(), options.features);
  const int64_t lanes = grad.kernel->kernel.lanes;
  const int64_t taps = p.kh * p.kw;
  const int64_t ci_group = p.ci / p.groups;
  const int64_t co_group = p.co / p.groups;
  grad.forward.fusion = Fusion::kTrue;
  Tiling& tiling = grad.forward.tiling;
  tiling.cols = std::clamp<int64_t>(p.wo, 1, round_up(even_part(p.wo, kBlockPixels), lanes));
  tiling.rows = even_part(p.ho, kBlockPixels / tiling.cols);
  tiling.ci = even_part(ci_group, kBlockColumns / taps);
  tiling.co = even_part(co_group, kBlockChannels);
  const Layout layout = make_layout(grad.forward);
  const int64_t items = p.n * layout.row_blocks * layout.col_blocks;
  const int64_t tasks = p.groups * std::max<int64_t>(1, ceil_div(ci_group, tiling.ci));
  grad.chunks = std::clamp<int64_t>(ceil_div(kTasks, tasks), 1, std::max<int64_t>(items, 1));
  grad.threads = grad.forward.threads;
  grad.reads_in_place =
      grad.forward.direct && p.pad_top == 0 && p.pad_bottom == 0 && p.pad_left == 0 && p.pad_right == 0;

  Placement parts;
  grad.dz_row_stride = round_up(tiling.cols, lanes);
  grad.offsets = parts.place(tiling.ci * taps * 8);
  grad.sums = parts.place(grad.chunks * p.co * ci_group * taps * 8);
  grad.bias_sums = parts.place(grad.chunks * p.co * 8);
  grad.scratch = parts.end;
  if (!grad.reads_in_place) parts.place(tiling.ci * layout.plane_stride * 4);
  grad.scratch_dz = parts.end - grad.scratch;
  parts.place(tiling.co * tiling.rows * grad.dz_row_stride * 4);
  grad.scratch_stride = parts.end - grad.scratch;
  grad.workspace_bytes = grad.scratch + grad.threads * grad.scratch_stride + kAlignment;
  plan->threads = std::max(plan->threads, grad.threads);
  plan->workspace_bytes = std::max(plan->workspace_bytes, grad.workspace_bytes);
}

// A tensor that is not touched has no say in how a problem is rewritten.
TensorStrides touched_strides(BackwardProblem* b) {
  TensorStrides touched = {{}, {}, {b->forward.y_strides, b->grad_y_strides}};
  if (b->wants_x) {
    touched.x.push_back(b->grad_x_strides);
    touched.filter.push_back(b->forward.filter_strides);
  }
  if (b->wants_filter) {
    touched.x.push_back(b->forward.x_strides);
    touched.filter.push_back(b->grad_filter_strides);
  }
  return touched;
}

}  // namespace

int64_t grad_input_phases(const BackwardProblem& problem) {
  const ConvTanhProblem& p = problem.forward;
  if (!problem.wants_x || p.n == 0 || p.ci == 0 || p.hi == 0 || p.wi == 0) return 0;
  if (p.co == 0 || p.ho == 0 || p.wo == 0) return 0;
  return std::min({p.hi, p.kh, phase_step(p.stride_h, p.dilation_h)}) *
         std::min({p.wi, p.kw, phase_step(p.stride_w, p.dilation_w)});
}

BackwardPlan make_backward_plan(const DispatchOptions& options, const BackwardProblem& problem) {
  BackwardPlan plan = {};
  plan.problem = problem;
  plan.threads = 1;
  ConvTanhProblem& p = plan.problem.forward;
  lengthen_rows(&p, touched_strides(&plan.problem));
  if (problem.wants_x && p.n > 0 && p.ci > 0 && p.hi > 0 && p.wi > 0) plan_grad_x(options, &plan);
  const bool wants_sums = (problem.wants_filter && p.ci > 0) || problem.wants_bias;
  if (wants_sums && p.co > 0 && plan.workspace_bytes != INT64_MAX) plan_grad_filter(options, &plan);
  return plan;
}

}  // namespace msct
