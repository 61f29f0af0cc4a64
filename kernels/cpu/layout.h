// Where everything lies: the packed input of a block, its output tile, and the parts of the workspace.
// Derived from a plan; dispatch uses it to size the workspace, execute() to run.
#ifndef MS_CONVTANH_KERNELS_CPU_LAYOUT_H_
#define MS_CONVTANH_KERNELS_CPU_LAYOUT_H_

#include <cstdint>

#include "kernels/cpu/k1_conv.h"
#include "kernels/dispatch/plan.h"
#include "kernels/rounding.h"

namespace msct {

// The size of the equal parts of at most `limit` that `total` falls into.
constexpr int64_t even_part(int64_t total, int64_t limit) {
  if (total <= 0) return 1;
  const int64_t largest = limit < 1 ? 1 : limit < total ? limit : total;
  return ceil_div(total, ceil_div(total, largest));
}

constexpr int64_t kAlignment = 64;  // a cache line, and the largest vector

// Lays out parts of a workspace one behind the other, each aligned. Offsets and sizes in bytes.
struct Placement {
  int64_t end = 0;

  // The start of a new part.
  int64_t place(int64_t bytes) {
    const int64_t start = end;
    end = round_up(end + bytes, kAlignment);
    return start;
  }
};

struct Layout {
  int64_t kh, kw;    // taps that are address offsets: those that the scheme does not fold into K
  int64_t taps;      // kh * kw
  int64_t ci_group;  // ci / groups
  int64_t co_group;  // co / groups

  // Blocks along each axis of the output.
  int64_t row_blocks, col_blocks, co_blocks;

  // Packed input of one block and K step.
  K1Axis h, w;
  int64_t plane_rows, pitch, plane_stride;

  // 1: the rows of a block are computed as one run, the columns between them included: their pitches are the same in
  // the packed input and in the tile. Where that takes fewer vectors than whole vectors for each row: W = 28.
  int64_t flat;

  // Where taps are rows of M: partial sums of one block, [co][tap][rows][vectors], with more columns than the block.
  int64_t more_columns, partial_row_stride, partial_m_stride;

  // Winograd: tiles of one block, and the strides of their arrays (WinogradTiles).
  int64_t tile_rows, tile_columns, tile_stride;
  int64_t transformed_stride, products_stride;  // between positions
  int64_t tile_row_stride, tile_m_stride;       // of the output that they become

  // Output of one block: [co][rows][vectors]. In half fusion it is a part of wsT, in true fusion a tile of its own.
  int64_t c_row_stride, c_m_stride;

  // Workspace, in bytes from its 64-byte aligned start.
  int64_t bias;            // as pack_bias leaves it
  int64_t zeros;           // the bias of partial sums
  int64_t filter;          // as pack_filter leaves it: [group][K step]
  int64_t filter_step;     // elements from one K step to the next
  int64_t filter_position;  // Winograd: elements from one position to the next, in a block of channels and K step
  int64_t packed_offsets;  // int64 [entries of a K step]: k_offset for packed blocks
  int64_t direct_offsets;  // the same for blocks that read x in place
  int64_t wst;             // half fusion: float32 [n, co, ho, wo], rows and channels rounded up
  // Per thread: packed input; Winograd's transformed input; partial sums or Winograd's products; the output tile, which
  // half fusion needs for Winograd only.
  int64_t scratch;
  int64_t scratch_transformed, scratch_partial, scratch_tile;  // from a thread's scratch
  int64_t scratch_stride;
  int64_t total;  // with room for alignment
};

// plan: everything but workspace_bytes.
Layout make_layout(const Plan& plan);

// The start of the workspace proper.
char* aligned(void* workspace);

// Fills k_offset of packed blocks and of blocks that read x in place; either may be null.
void write_k_offsets(const Plan& plan, const Layout& layout, int64_t* packed, int64_t* direct);

// What pack_input needs for the block at (row, col) of the output. source: the first of ci channels, row 0, column 0.
K1Input make_k1_input(const Plan& plan, const Layout& layout, const void* source, int64_t ci, int64_t row, int64_t col);

// Elements of packed input that a block of the given size needs for `ci` channels. plan: its problem, k1 and scheme.
int64_t packed_elements(const Plan& plan, int64_t rows, int64_t cols, int64_t ci);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_LAYOUT_H_
