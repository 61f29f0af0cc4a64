#include "kernels/dispatch/plan.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/range_check.h"
#include "kernels/cpu/registry.h"
#include "kernels/dispatch/cost.h"
#include "kernels/dispatch/features.h"

namespace msct {

namespace {

// Sizes that keep a block in cache on any CPU of the last ten years (L1 32 KiB, L2 256 KiB). Measured with the
// benchmark; performance is flat within a factor of two of each.
constexpr int64_t kBlockChannels = 128;      // output channels in a block: its input is packed once for all of them
constexpr int64_t kTileElements = 16 << 10;  // output of a block: 64 KiB
constexpr int64_t kPackedElements = 40 << 10;  // packed input of a block and K step: 160 KiB
constexpr int64_t kBlocksPerThread = 4;        // enough for an even split when one thread is held up
// CPUs with a matrix unit have an L2 of at least 1 MiB, and packing takes more of their time.
constexpr int64_t kMatrixFactor = 4;
constexpr int64_t kMatrixBlockChannels = 256;

// The sizes for a kernel: those of the tuning, and dispatch's own where it has none.
Tuning sizes_for(const K1Kernel& kernel, const Tuning& tuning) {
  const bool matrix = kernel.depth > 1;
  const int64_t factor = matrix ? kMatrixFactor : 1;
  const auto either = [](int64_t value, int64_t own) { return value > 0 ? value : own; };
  return {either(tuning.block_channels, matrix ? kMatrixBlockChannels : kBlockChannels),
          either(tuning.tile_elements, factor * kTileElements),
          either(tuning.packed_elements, factor * kPackedElements), either(tuning.blocks_per_thread, kBlocksPerThread)};
}

// Below this work per thread, waking another thread costs more than it saves.
constexpr double kOperationsPerThread = 1e6;
constexpr double kTanhOperations = 30;
constexpr double kMatrixSpeed = 10;  // of a matrix unit's products, in those of vectors

// Its channels alone.
Tiling channel_tiling(const Plan& plan, const Tuning& size) {
  const ConvTanhProblem& p = plan.problem;
  const int64_t co_group = p.co / p.groups;
  const int64_t co = round_up(even_part(co_group, size.block_channels), plan.k1->kernel.panel);
  return {1, 1, std::min(co_group, co), step_channels(p, plan.scheme)};
}

// Blocks of an image's place, over images, groups and channels.
int64_t blocks_at_a_place(const ConvTanhProblem& p, const Tiling& tiling) {
  return p.n * p.groups * ceil_div(p.co / p.groups, tiling.co);
}

// In tiles of 2x2 outputs.
struct TileCounts {
  int64_t rows, columns;
};

constexpr int64_t kRowTiles = 8;      // what packing a row takes beyond its elements, in tiles
constexpr double kPackedShare = 0.2;  // of the time of products, for a packed tile

// Those whose register tiles are full and whose edges, which neighbouring blocks pack too, are short.
TileCounts best_tile_counts(const K1Kernel& kernel, const TileCounts& all, int64_t limit) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const int64_t full = kernel.lanes * kernel.group;
  TileCounts best = {1, std::min(all.columns, kernel.lanes)};
  double least = -1;
  for (int64_t columns = kernel.lanes;; columns += kernel.lanes) {
    const int64_t width = std::min(columns, all.columns);
    if (width > limit && width > kernel.lanes) break;
    const int64_t rows = even_part(all.rows, std::max<int64_t>(1, limit / width));
    const int64_t rest = all.columns % width;
    const int64_t blocks = ceil_div(all.columns, width);
    const int64_t computed = all.columns / width * round_up(rows * width, full) + round_up(rows * rest, full);
    const int64_t packed = (rows + 1) * (all.columns + blocks * (1 + kRowTiles));
    const double cost = (real(computed) + kPackedShare * real(packed)) / real(rows * all.columns);
    if (least < 0 || cost < least) {
      least = cost;
      best = {rows, width};
    }
    if (width == all.columns) break;
  }
  return best;
}

Tiling make_winograd_tiling(const Plan& plan) {
  const ConvTanhProblem& p = plan.problem;
  const K1Kernel& kernel = plan.k1->kernel;
  const Tuning size = sizes_for(kernel, plan.tuning);
  Tiling tiling = channel_tiling(plan, size);
  const TileCounts all = {ceil_div(p.ho, 2), ceil_div(p.wo, 2)};
  // Transformed inputs and products are used position by position: they may exceed the L2 cache.
  const int64_t limit = 8 * size.packed_elements / (kWinogradPositions * (tiling.ci + tiling.co));
  TileCounts counts = best_tile_counts(kernel, all, limit);
  const int64_t fixed_blocks = blocks_at_a_place(p, tiling);
  const auto blocks = [&] {
    return fixed_blocks * ceil_div(all.rows, counts.rows) * ceil_div(all.columns, counts.columns);
  };
  if (plan.threads > 1) {
    // Fewer tiles than these would leave register tiles empty.
    const int64_t least = kernel.lanes * kernel.group;
    while (counts.rows > 1 && ceil_div(counts.rows, 2) * counts.columns >= least &&
           blocks() < plan.threads * size.blocks_per_thread) {
      counts.rows = ceil_div(counts.rows, 2);
    }
  }
  tiling.rows = std::min(p.ho, 2 * counts.rows);
  tiling.cols = std::min(p.wo, 2 * counts.columns);
  return tiling;
}

Tiling make_tiling(const Plan& plan) {
  if (plan.scheme.winograd) return make_winograd_tiling(plan);
  const ConvTanhProblem& p = plan.problem;
  const K1Kernel& kernel = plan.k1->kernel;
  const Tuning size = sizes_for(kernel, plan.tuning);
  Tiling tiling = channel_tiling(plan, size);

  // A block that reads x in place packs only at the end of a row.
  const int64_t packed_limit = plan.direct ? 4 * size.packed_elements : size.packed_elements;
  const auto fits = [&](int64_t rows, int64_t cols) {
    return tiling.co * plan.scheme.spread_w * rows * round_up(cols, kernel.lanes) <= size.tile_elements &&
           packed_elements(plan, rows, cols, tiling.ci) <= packed_limit;
  };
  // Whole rows if one fits, since a cut row packs its overlap twice. Else the fewest parts that fit, or single vectors.
  tiling.rows = 1;
  tiling.cols = p.wo;
  if (!fits(1, p.wo) && p.wo > kernel.lanes) {
    const auto part = [&](int64_t parts) { return round_up(ceil_div(p.wo, parts), kernel.lanes); };
    int64_t too_few = 1, enough = ceil_div(p.wo, kernel.lanes);
    while (enough - too_few > 1) {
      const int64_t middle = too_few + (enough - too_few) / 2;
      (fits(1, part(middle)) ? enough : too_few) = middle;
    }
    tiling.cols = part(enough);
  }
  while (tiling.rows < p.ho && fits(tiling.rows + 1, tiling.cols)) ++tiling.rows;
  tiling.rows = even_part(p.ho, tiling.rows);

  const int64_t fixed_blocks = blocks_at_a_place(p, tiling);
  const auto blocks = [&] { return fixed_blocks * ceil_div(p.ho, tiling.rows) * ceil_div(p.wo, tiling.cols); };
  if (plan.threads > 1) {
    while (tiling.rows > 1 && blocks() < plan.threads * size.blocks_per_thread) tiling.rows = ceil_div(tiling.rows, 2);
    const int64_t least = kernel.lanes * kernel.group;
    while (tiling.cols > 2 * least && blocks() < plan.threads * size.blocks_per_thread) {
      tiling.cols = round_up(ceil_div(tiling.cols, 2), kernel.lanes);
    }
  }
  return tiling;
}

int64_t make_threads(const Plan& plan, int64_t limit) {
  const ConvTanhProblem& p = plan.problem;
  const double outputs = static_cast<double>(p.n) * static_cast<double>(p.co) * static_cast<double>(p.ho * p.wo);
  double per_output = 2.0 * static_cast<double>(p.ci / p.groups) * static_cast<double>(p.kh * p.kw);
  if (plan.scheme.halves > 1) per_output *= static_cast<double>(plan.scheme.products) / kMatrixSpeed;
  const double threads = outputs * (per_output + kTanhOperations) / kOperationsPerThread;
  if (threads >= static_cast<double>(limit)) return limit;
  return std::max<int64_t>(1, static_cast<int64_t>(threads));
}

// Whether a workspace can be laid out with sizes that fit an int64_t. Estimated from above, in floating point.
bool is_countable(const Plan& plan) {
  const ConvTanhProblem& p = plan.problem;
  const double lanes = static_cast<double>(plan.k1->kernel.lanes * plan.scheme.products);
  const auto product = [](std::initializer_list<int64_t> factors) {
    double result = 1;
    for (int64_t factor : factors) result *= static_cast<double>(factor);
    return result;
  };
  const double result = product({p.n, p.co, p.ho, p.wo}) * 2 * lanes;
  const double filter = product({p.co, p.ci / p.groups, p.kh, p.kw});
  const double packed = product({plan.threads, p.ci / p.groups, p.kh, p.kw}) * 64 * lanes;
  return (result + filter * lanes + packed) * sizeof(float) < 0x1p60;
}

// Completes a plan that has its K1.
void place_blocks(Plan* plan) {
  const ConvTanhProblem& p = plan->problem;
  plan->direct = plan->scheme.halves == 1 && !plan->gated && p.dtype == DType::kFloat32 && p.kh == 1 && p.kw == 1 &&
                 p.stride_w == 1 && p.x_strides[3] == 1;
  plan->filter_in_place = reads_filter_in_place(p, plan->scheme);
  plan->tiling = make_tiling(*plan);
  plan->workspace_bytes = make_layout(*plan).total;
}

// The distance between neighbours if channels, rows and columns are one run of elements; the axis that moves fastest
// may have size 1.
int64_t run_step(const int64_t* strides, int64_t rows, int64_t columns) {
  return columns > 1 ? strides[3] : rows > 1 ? strides[2] : strides[1];
}

bool is_run(const int64_t* strides, int64_t channels, int64_t rows, int64_t columns) {
  const int64_t step = run_step(strides, rows, columns);
  return (rows == 1 || strides[2] == columns * step) && (channels == 1 || strides[1] == rows * columns * step);
}

void images_as_pixels(int64_t* strides, int64_t channel_step) {
  strides[3] = strides[0];
  strides[1] = channel_step;
  strides[0] = strides[2] = 0;
}

}  // namespace

bool lengthen_rows(ConvTanhProblem* p, const TensorStrides& tensors, int64_t least_images) {
  if (p->pad_top != 0 || p->pad_bottom != 0 || p->pad_left != 0 || p->pad_right != 0) return false;
  const auto all = [](const std::vector<int64_t*>& strides, auto condition) {
    return std::all_of(strides.begin(), strides.end(), condition);
  };
  const auto rows_follow = [&](const int64_t* s) { return s[2] == p->wi * s[3]; };
  const bool pointwise = p->kh == 1 && p->kw == 1 && p->stride_h == 1 && p->stride_w == 1;
  if (pointwise && p->hi > 1 && all(tensors.x, rows_follow) && all(tensors.y, rows_follow)) {
    p->wi *= p->hi;
    p->wo *= p->ho;
    p->hi = p->ho = 1;
    return false;
  }
  const auto taps_follow = [&](const int64_t* s) { return is_run(s, p->ci, p->hi, p->wi); };
  if (p->n < least_images || p->kh != p->hi || p->kw != p->wi) return false;
  if (!all(tensors.x, taps_follow) || !all(tensors.filter, taps_follow)) return false;
  for (int64_t* s : tensors.x) images_as_pixels(s, run_step(s, p->hi, p->wi));
  for (int64_t* s : tensors.filter) s[1] = s[2] = s[3] = run_step(s, p->hi, p->wi);
  for (int64_t* s : tensors.y) images_as_pixels(s, s[1]);
  p->ci *= p->hi * p->wi;
  p->wi = p->wo = p->n;
  p->n = p->hi = p->ho = p->kh = p->kw = 1;
  p->stride_h = p->stride_w = p->dilation_h = p->dilation_w = 1;
  return true;
}

Plan make_plan(const DispatchOptions& options, const ConvTanhProblem& problem) {
  Plan plan = {};
  plan.problem = problem;
  ConvTanhProblem& p = plan.problem;
  // Tiles add rows of K in another order in either form: it has to be the same for one image as for many.
  const int64_t least_images = (options.features & kFeatureAmxBf16) != 0 ? 1 : 2;
  plan.images_are_pixels = lengthen_rows(&p, {{p.x_strides}, {p.filter_strides}, {p.y_strides}}, least_images) ? 1 : 0;
  plan.filter_group_stride = problem.co / problem.groups * problem.filter_strides[0];
  finish_plan(options, &plan);
  return plan;
}

void finish_plan(const DispatchOptions& options, Plan* plan) {
  const ConvTanhProblem& p = plan->problem;
  const K1Candidate choice = choose_k1(options, *plan);
  plan->k1 = choice.k1;
  plan->scheme = choice.scheme;
  plan->k2 = best_variant(k2_variants(), options.features);
  plan->tuning = options.tuning;
  plan->fusion = options.fusion == Fusion::kHalf ? Fusion::kHalf : Fusion::kTrue;
  plan->threads = make_threads(*plan, options.threads);
  plan->tiling = {1, 1, 1, 1};
  plan->workspace_bytes = 0;
  if (p.n == 0 || p.co == 0 || p.ho == 0 || p.wo == 0) return;
  if (!is_countable(*plan)) {
    plan->workspace_bytes = INT64_MAX;
    return;
  }
  place_blocks(plan);
  if (plan->scheme.winograd) {
    plan->precise_k1 = plan->k1;
    plan->range_offset = std::max(plan->workspace_bytes, precise_plan(*plan).workspace_bytes);
    plan->workspace_bytes = plan->range_offset + p.n + kAlignment;
  } else if (p.dtype == DType::kFloat32 && plan->k1->kernel.add_to_range) {
    DispatchOptions plain_options = options;
    plain_options.plain = true;
    plain_options.k1 = nullptr;
    plain_options.k1_candidate = 0;
    plan->precise_k1 = choose_k1(plain_options, *plan).k1;
    plan->range_offset = std::max(plan->workspace_bytes, precise_plan(*plan).workspace_bytes);
    plan->workspace_bytes = plan->range_offset + range_check_bytes(p) + kAlignment;
  }
}

Plan precise_plan(const Plan& plan) {
  Plan result = plan;
  result.k1 = plan.precise_k1;
  result.scheme = kVectorScheme;
  result.precise_k1 = nullptr;
  place_blocks(&result);
  return result;
}

}  // namespace msct
