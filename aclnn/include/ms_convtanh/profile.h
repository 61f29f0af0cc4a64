/* What `ms-convtanh profile` is made of. Not a stable interface: it follows the kernels. */
#ifndef MS_CONVTANH_PROFILE_H_
#define MS_CONVTANH_PROFILE_H_

#include "ms_convtanh/ms_convtanh.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a thread did for some time. Events of a thread are nested or apart. */
typedef struct msctTraceEvent {
  const char* phase;   // entry (from MindSpore), phase 1, phase 2, run, pack, K1, K2 or wait
  const char* detail;  // operator and shapes of a run, "" for other phases; lives as long as the process
  int64_t thread;      // as gettid() gives it
  int64_t start, end;  // nanoseconds of CLOCK_MONOTONIC
  int64_t flops;       // of K1, 2 for each multiply-add; 0 for other phases
  int64_t bytes;       // of all tensors of a run; 0 for other phases
} msctTraceEvent;

/* Starts to record the calls of all threads, and forgets what was recorded before. */
MSCT_PUBLIC aclnnStatus msctTraceStart(void);

/* Ends the recording; what was recorded stays. */
MSCT_PUBLIC aclnnStatus msctTraceStop(void);

/*
 * Copies up to capacity events; events may be null if capacity is 0. *count: events there are, also beyond capacity.
 * *dropped: events for which there was no room, 524288 being kept for each thread. Either may not be null:
 * ACLNN_ERR_PARAM_NULLPTR.
 */
MSCT_PUBLIC aclnnStatus msctTraceRead(msctTraceEvent* events, uint64_t capacity, uint64_t* count, uint64_t* dropped);

/* What the machine does at best with the options in force: the instruction sets allowed and the number of threads. */
typedef struct msctPeaks {
  double flops;     // float32 operations per second in registers, all threads together; a multiply-add is 2
  double bytes;     // bytes per second, read and written, of a copy beyond the caches, all threads together
  int64_t threads;  // that it was measured with
  double bfloat16Flops;  // of bfloat16 products summed in float32: more than flops where there is a matrix unit
} msctPeaks;

/* Measures for about a fifth of a second. ACLNN_ERR_INNER if there is no memory for it. */
MSCT_PUBLIC aclnnStatus msctMeasurePeaks(msctPeaks* peaks);

#ifdef __cplusplus
}
#endif

#endif /* MS_CONVTANH_PROFILE_H_ */
