#include "kernels/cpu/layout.h"

#include <algorithm>
#include <numeric>

#include "kernels/cpu/registry.h"

namespace msct {

namespace {

// An odd number of cache lines: neighbouring channels then fall into different sets of the L1 cache.
int64_t spread(int64_t elements) {
  const int64_t line = kAlignment / static_cast<int64_t>(sizeof(float));
  return (ceil_div(elements, line) | 1) * line;
}

struct AxisExtent {
  K1Axis axis;
  int64_t elements;  // in each phase, for `outputs` output positions
};

// Taps share phases, or have one each, whichever packs fewer elements.
AxisExtent make_axis(int64_t taps, int64_t stride, int64_t dilation, int64_t outputs) {
  const int64_t period = stride / std::gcd(stride, dilation);
  const int64_t phases = taps < period ? taps : period;
  const int64_t elements = outputs + (taps - 1) * dilation / stride;
  if (phases * elements <= taps * outputs) return {{stride, dilation, stride, phases}, elements};
  return {{stride, dilation, INT64_MAX, taps}, outputs};
}

int64_t more_columns(const Plan& plan) { return (plan.scheme.spread_w - 1) * plan.problem.dilation_w; }

struct PackedBlock {
  AxisExtent h, w;
  int64_t pitch, plane_stride;
};

PackedBlock make_packed_block(const Plan& plan, int64_t rows, int64_t cols) {
  const ConvTanhProblem& p = plan.problem;
  const int64_t lanes = plan.k1->kernel.lanes;
  PackedBlock block;
  if (plan.scheme.winograd) {  // four inputs at a distance of two for each tile
    block.h = make_axis(p.kh, 1, 1, round_up(rows, 2));
    block.w = make_axis(4, 2, 1, ceil_div(cols, 2));
  } else {
    block.h = make_axis(plan.scheme.tap_rows(p.kh), p.stride_h, p.dilation_h, rows);
    block.w = make_axis(plan.scheme.tap_columns(p.kw), p.stride_w, p.dilation_w, cols + more_columns(plan));
  }
  // Whole vectors reach beyond the last column: into the next row, whose values end up in lanes that nobody reads, and
  // beyond the last row, hence a vector to spare.
  block.pitch = round_up(block.w.elements, lanes);
  const int64_t line = plan.scheme.winograd ? 2 * block.pitch : 0;  // a row before its columns are split
  const int64_t plane = line + block.h.axis.phases * block.w.axis.phases * block.h.elements * block.pitch + lanes;
  block.plane_stride = spread(plane);
  return block;
}

int64_t align(int64_t bytes) { return round_up(bytes, kAlignment); }

}  // namespace

int64_t packed_elements(const Plan& plan, int64_t rows, int64_t cols, int64_t ci) {
  return (plan.scheme.winograd ? 1 : plan.scheme.planes(ci)) * make_packed_block(plan, rows, cols).plane_stride;
}

Layout make_layout(const Plan& plan) {
  const ConvTanhProblem& p = plan.problem;
  const Tiling& tiling = plan.tiling;
  const K1Kernel& kernel = plan.k1->kernel;
  const int64_t lanes = kernel.lanes;
  Layout layout = {};
  layout.kh = plan.scheme.tap_rows(p.kh);
  layout.kw = plan.scheme.tap_columns(p.kw);
  layout.taps = layout.kh * layout.kw;
  layout.ci_group = p.ci / p.groups;
  layout.co_group = p.co / p.groups;
  layout.row_blocks = ceil_div(p.ho, tiling.rows);
  layout.col_blocks = ceil_div(p.wo, tiling.cols);
  layout.co_blocks = ceil_div(layout.co_group, tiling.co);

  const PackedBlock block = make_packed_block(plan, tiling.rows, tiling.cols);
  layout.h = block.h.axis;
  layout.w = block.w.axis;
  layout.plane_rows = block.h.elements;
  layout.pitch = block.pitch;
  layout.plane_stride = block.plane_stride;

  const bool half = plan.fusion == Fusion::kHalf;
  const bool is_spread = plan.scheme.spread_w > 1;
  layout.more_columns = more_columns(plan);
  const int64_t columns = tiling.cols + layout.more_columns;
  // Not in wsT, where the end of a block's run would reach into the next block.
  const int64_t run = (tiling.rows - 1) * block.w.elements + columns;
  layout.flat = (!half || is_spread) && !plan.direct && !plan.scheme.winograd &&
                ceil_div(run, lanes) < tiling.rows * ceil_div(columns, lanes);
  if (layout.flat) layout.pitch = block.w.elements;
  if (is_spread) {
    layout.partial_row_stride = layout.flat ? layout.pitch : round_up(columns, lanes);
    layout.partial_m_stride = spread(layout.partial_row_stride * tiling.rows + lanes);
  }
  if (plan.scheme.winograd) {
    layout.tile_rows = ceil_div(tiling.rows, 2);
    layout.tile_columns = ceil_div(tiling.cols, 2);
    layout.tile_stride = spread(layout.tile_rows * layout.tile_columns + lanes);
    layout.transformed_stride = spread(tiling.ci * layout.tile_stride);
    layout.products_stride = spread(tiling.co * layout.tile_stride);
    layout.tile_row_stride = 2 * round_up(layout.tile_columns, lanes);
    layout.tile_m_stride = spread(2 * layout.tile_rows * layout.tile_row_stride);
  }
  if (plan.scheme.winograd && !half) {
    layout.c_row_stride = layout.tile_row_stride;
    layout.c_m_stride = layout.tile_m_stride;
  } else {
    layout.c_row_stride = layout.flat && !is_spread ? layout.pitch : round_up(half ? p.wo : tiling.cols, lanes);
    layout.c_m_stride = spread(layout.c_row_stride * (half ? p.ho : tiling.rows));
  }

  Placement parts;
  const int64_t f32 = sizeof(float);
  const int64_t entries = plan.scheme.blocks(tiling.ci) * layout.taps;
  const int64_t spread_w = plan.scheme.spread_w;
  layout.filter_step = round_up(layout.co_group * spread_w, kernel.height) * entries * kernel.depth;
  if (plan.scheme.winograd) {
    layout.filter_position = spread(tiling.co * tiling.ci);
    layout.filter_step = layout.co_blocks * kWinogradPositions * layout.filter_position;
  }
  layout.bias = parts.place(p.co * kernel.bias_width * f32);
  const bool has_partial = is_spread || plan.scheme.winograd;
  layout.zeros = parts.place(has_partial ? tiling.co * spread_w * kernel.bias_width * f32 : 0);
  const int64_t steps = p.groups * ceil_div(layout.ci_group, tiling.ci);
  layout.filter = parts.place(plan.filter_in_place ? 0 : steps * layout.filter_step * f32);
  layout.packed_offsets = parts.place(entries * static_cast<int64_t>(sizeof(int64_t)));
  layout.direct_offsets = parts.place(entries * static_cast<int64_t>(sizeof(int64_t)));
  layout.wst = parts.place(half ? p.n * p.co * layout.c_m_stride * f32 : 0);
  layout.scratch = parts.end;
  const int64_t planes = plan.scheme.winograd ? 1 : plan.scheme.planes(tiling.ci);
  layout.scratch_transformed = align(planes * layout.plane_stride * f32);
  layout.scratch_partial = layout.scratch_transformed + align(kWinogradPositions * layout.transformed_stride * f32);
  const int64_t partial = tiling.co * spread_w * layout.partial_m_stride + kWinogradPositions * layout.products_stride;
  layout.scratch_tile = layout.scratch_partial + align(partial * f32);
  // K2 reads whole vectors of each row: of the last one, where rows are narrower than that, beyond the tile.
  const int64_t m_stride = plan.scheme.winograd ? layout.tile_m_stride : half ? 0 : layout.c_m_stride;
  const int64_t tile = tiling.co * m_stride + (layout.flat ? lanes : 0);
  layout.scratch_stride = layout.scratch_tile + align(tile * f32);
  layout.total = layout.scratch + plan.threads * layout.scratch_stride + kAlignment;
  return layout;
}

char* aligned(void* workspace) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(workspace);
  return static_cast<char*>(workspace) + (-address & (kAlignment - 1));
}

void write_k_offsets(const Plan& plan, const Layout& layout, int64_t* packed, int64_t* direct) {
  const ConvTanhProblem& p = plan.problem;
  if (plan.scheme.winograd) {
    for (int64_t ci = 0; ci < plan.tiling.ci; ++ci) packed[ci] = ci * layout.tile_stride;
    return;
  }
  const int64_t planes = plan.scheme.planes(plan.tiling.ci);
  for (int64_t plane = 0; plane < planes; plane += plan.scheme.depth) {
    for (int64_t kh = 0; kh < layout.kh; ++kh) {
      for (int64_t kw = 0; kw < layout.kw; ++kw) {
        const int64_t phase = layout.h.phase(kh) * layout.w.phases + layout.w.phase(kw);
        const int64_t row = phase * layout.plane_rows + layout.h.shift(kh);
        if (packed) *packed++ = plane * layout.plane_stride + row * layout.pitch + layout.w.shift(kw);
        if (!direct) continue;  // a plane is a channel
        *direct++ = plane * p.x_strides[1] + kh * p.dilation_h * p.x_strides[2] + kw * p.dilation_w * p.x_strides[3];
      }
    }
  }
}

K1Input make_k1_input(const Plan& plan, const Layout& layout, const void* source, int64_t ci, int64_t row,
                      int64_t col) {
  const ConvTanhProblem& p = plan.problem;
  K1Input input = {};
  input.source = source;
  input.dtype = p.dtype;
  std::copy(p.x_strides + 1, p.x_strides + 4, input.strides);
  input.ci = ci;
  input.hi = p.hi;
  input.wi = p.wi;
  input.top = row * p.stride_h - p.pad_top;
  input.left = col * p.stride_w - p.pad_left;
  input.h = layout.h;
  input.w = layout.w;
  input.rows = layout.plane_rows;
  input.pitch = layout.pitch;
  input.plane_stride = layout.plane_stride;
  input.scheme = plan.scheme;
  return input;
}

}  // namespace msct
