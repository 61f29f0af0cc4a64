// What ms_convtanh offers beyond CANN's interface: version, CPU features, options, and the plan of a problem as data.
#ifndef MS_CONVTANH_MS_CONVTANH_H_
#define MS_CONVTANH_MS_CONVTANH_H_

#include <stdint.h>

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MSCT_PUBLIC __attribute__((visibility("default")))
#else
#define MSCT_PUBLIC
#endif

/* The library's version, such as "0.1.0". */
MSCT_PUBLIC const char *msctGetVersion(void);

/* The CPU's model as the system names it: "AMD EPYC". Tuning files are for one model. */
MSCT_PUBLIC const char *msctGetCpuModel(void);

/*
 * Options. Each starts from its environment variable, read at its first use, and can be changed at any time; calls made
 * afterwards follow the new value. A null value returns to the environment's.
 *   "max_isa"      MS_CONVTANH_MAX_ISA      ceiling of the kernels' instruction sets: portable, avx2, avx512, amx
 *   "fusion"       MS_CONVTANH_FUSION       auto (default), half or true
 *   "num_threads"  MS_CONVTANH_NUM_THREADS  1 or more; never above the affinity mask and the cgroup quota
 *   "tuning"       MS_CONVTANH_TUNING       a file that `ms-convtanh tune` has written, or off. C programs read none of
 *                                           their own accord; Python reads this CPU's from its cache folder.
 * Returns ACLNN_SUCCESS, ACLNN_ERR_PARAM_NULLPTR (name) or ACLNN_ERR_PARAM_INVALID (unknown name or value).
 * An environment variable with an unknown value makes every phase 1 return ACLNN_ERR_PARAM_INVALID and name it. But a
 * tuning file of the environment that cannot be used (missing, corrupt, of another CPU or version) is ignored, and
 * msctInfo.tuningIgnored says why: tuning changes no result.
 */
MSCT_PUBLIC aclnnStatus msctSetOption(const char *name, const char *value);

/* What runs here. Strings live as long as the process; lists are separated by commas, best first. */
typedef struct msctInfo {
  const char *detected;  // variants that this CPU and operating system can run
  const char *allowed;   // those of them below the ceiling
  const char *built;     // variants in this library
  const char *k1;        // the K1 variant that a large float32 problem gets
  const char *k2;        // the K2 variant likewise
  const char *max_isa;   // the ceiling in force, "" if none
  const char *fusion;    // the fusion option in force: auto, half or true
  int64_t threads;       // threads that a large problem gets
  const char *compiler;  // what built the library
  const char *tuning;    // the tuning file in force, "" if none
  const char *tuningIgnored;  // why MS_CONVTANH_TUNING is ignored, "" if it is not
} msctInfo;
MSCT_PUBLIC aclnnStatus msctGetInfo(msctInfo *info);

/* A way to compute the convolution, and what it is estimated to take. */
typedef struct msctCandidate {
  const char *k1;       // K1 variant: portable, avx2, avx512, amx
  int64_t products;     // products of bfloat16 terms for each product of x and filter, in amx; 1 elsewhere
  int64_t foldedTaps;   // taps that fill the reduction of a tile where input channels are few, 1 if none do
  int64_t spreadTaps;   // taps that fill the rows of a tile where output channels are few, 1 if none do
  int64_t winograd;     // 1 if tiles of 2x2 outputs are computed from 16 products for each input channel, 0 if not
  double microseconds;  // estimate, for one image on one thread, without tanh
} msctCandidate;
enum { MSCT_MAX_CANDIDATES = 12 };

/* The plan of a problem: what phase 2 would do. */
typedef struct msctPlan {
  const char *k1;          // K1 variant: portable, avx2, avx512, amx
  const char *k2;          // K2 variant: portable, avx2, avx512
  const char *fusion;      // half or true
  int64_t direct;          // 1 if K1 reads x in place where it can
  int64_t tileRows;        // output rows in a block
  int64_t tileCols;        // output columns in a block
  int64_t tileCo;          // output channels in a block
  int64_t tileCi;          // input channels in a K step
  int64_t threads;
  uint64_t workspaceSize;  // bytes
  int64_t candidateCount;  // at least 1
  msctCandidate candidates[MSCT_MAX_CANDIDATES];  // cheapest first; the first one is what the plan takes
} msctPlan;

/* Takes phase 1's arguments, makes phase 1's checks, and fills *plan instead of making an executor. */
MSCT_PUBLIC aclnnStatus msctExplainFusedConvTanh(const aclTensor *x, const aclTensor *filter,
                                                 const aclTensor *biasOptional, const aclIntArray *strides,
                                                 const aclIntArray *pads, const aclIntArray *dilations, int64_t groups,
                                                 int64_t cubeMathType, const aclTensor *y, msctPlan *plan);

/*
 * A filter cache: an opt-in for inference. K1 reads the filter in a packed form, which phase 2 otherwise makes in each
 * call. With a cache it is made once and kept there, with a copy of the filter's elements; each later call compares the
 * copy with the filter, and packs anew if a byte differs. So weights may change at any time, also in place, and memory
 * may be freed and used again. One cache may serve many executors and threads; it keeps the last 64 filters. Filters
 * that K1 reads without packing, and those with gaps between their elements, are not kept. A first call, and one after
 * weights changed, allocates.
 */
typedef struct msctFilterCache msctFilterCache;

/* Null if there is no memory for it. */
MSCT_PUBLIC msctFilterCache *msctCreateFilterCache(void);

/* Executors that use the cache may still be launched and go on using it. */
MSCT_PUBLIC aclnnStatus msctDestroyFilterCache(const msctFilterCache *cache);

/*
 * Between phase 1 and phase 2 of aclnnFusedConvTanh; for a repeatable executor at any time, for launches made
 * afterwards. A null cache returns to packing in each call. Fails with ACLNN_ERR_INNER_NULLPTR for a null executor,
 * with ACLNN_ERR_PARAM_INVALID for one of another operator, and if executor or cache are not alive.
 */
MSCT_PUBLIC aclnnStatus msctSetFilterCache(aclOpExecutor *executor, const msctFilterCache *cache);

#ifdef __cplusplus
}
#endif

#endif /* MS_CONVTANH_MS_CONVTANH_H_ */
