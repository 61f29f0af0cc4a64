// What one call computes, without its addresses: the input of dispatch and the key of the plan cache.
#ifndef MS_CONVTANH_KERNELS_PROBLEM_H_
#define MS_CONVTANH_KERNELS_PROBLEM_H_

#include <cstddef>
#include <cstdint>

namespace msct {

enum class DType : int64_t { kFloat32, kFloat16, kBFloat16 };

inline int64_t size_of(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// y[n, co, oy, ox] = tanh(bias[co] + sum over ci, kh, kw of
//     filter[co, ci, kh, kw] * x[n, group * ci + ci', oy * stride_h + kh * dilation_h - pad_top, ...]),
// where x is 0 outside its bounds. A 1-D problem has hi = kh = ho = 1.
//
// Every field is an int64_t and is set by the caller: problems are compared and hashed as plain bytes.
// Checked before dispatch sees it: all sizes >= 0, groups divides ci and co, ho and wo match the formula, nothing
// overflows int64_t.
struct ConvTanhProblem {
  DType dtype;
  int64_t n, ci, hi, wi;    // x [n, ci, hi, wi]
  int64_t co, kh, kw;       // filter [co, ci / groups, kh, kw]
  int64_t ho, wo;           // y [n, co, ho, wo]
  int64_t stride_h, stride_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;
  int64_t dilation_h, dilation_w;
  int64_t groups;
  int64_t has_bias;         // 0 or 1
  int64_t cube_math_type;   // 0 KEEP_DTYPE, 1 ALLOW_FP32_DOWN_PRECISION, 2 USE_FP16, 3 USE_HF32
  // Distances between neighbours along each axis, in elements. 0 repeats an input; an output is never repeated.
  int64_t x_strides[4];
  int64_t filter_strides[4];
  int64_t bias_stride;
  int64_t y_strides[4];
};

bool operator==(const ConvTanhProblem& a, const ConvTanhProblem& b);

// Addresses of element 0 (storage offsets already applied). x, filter and bias are only read. bias is null without
// bias.
struct ConvTanhTensors {
  const void* x;
  const void* filter;
  const void* bias;
  void* y;
};

// The gradients of a ConvTanhProblem. With dz = gradY * (1 - y * y):
//   gradX[n, ci, h, w] = sum over co, kh, kw of filter[co, ci, kh, kw] * dz[n, co, oy, ox], where
//       h = oy * stride_h + kh * dilation_h - pad_top, and w likewise
//   gradFilter[co, ci, kh, kw] = sum over n, oy, ox of x[n, ci, h, w] * dz[n, co, oy, ox]
//   gradBias[co] = sum over n, oy, ox of dz[n, co, oy, ox]
// Compared and hashed as bytes too.
struct BackwardProblem {
  ConvTanhProblem forward;  // bias_stride is not used
  int64_t wants_x, wants_filter, wants_bias;  // 0 or 1: outputMask
  int64_t grad_y_strides[4];
  int64_t grad_x_strides[4];
  int64_t grad_filter_strides[4];
  int64_t grad_bias_stride;
};

bool operator==(const BackwardProblem& a, const BackwardProblem& b);

// x is not read without gradFilter, filter not without gradX; both may be null then, as may gradients not wanted.
struct BackwardTensors {
  const void* grad_y;
  const void* y;
  const void* x;
  const void* filter;
  void* grad_x;
  void* grad_filter;
  void* grad_bias;
};

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_PROBLEM_H_
