// msctTrace* and msctMeasurePeaks.
#include "ms_convtanh/profile.h"

#include <string>
#include <vector>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"
#include "aclnn/src/keep.h"
#include "aclnn/src/options.h"
#include "aclnn/src/tensor.h"
#include "kernels/cpu/peak.h"
#include "kernels/cpu/trace.h"

namespace msct {
namespace {

// Such as "aclnnFusedConvTanh x [1, 3, 8, 8] filter [4, 3, 3, 3]".
const char* detail_of(const TraceEvent& event) {
  if (event.operator_name == nullptr) return "";
  const std::vector<int64_t> x(event.x, event.x + 4), filter(event.filter, event.filter + 4);
  return keep(std::string(event.operator_name) + " x " + text_of(x) + " filter " + text_of(filter));
}

}  // namespace
}  // namespace msct

aclnnStatus msctTraceStart() {
  return msct::guarded(ACLNN_ERR_INNER, __func__, []() -> int32_t {
    msct::start_trace();
    return ACLNN_SUCCESS;
  });
}

aclnnStatus msctTraceStop() {
  msct::stop_trace();
  return ACLNN_SUCCESS;
}

aclnnStatus msctTraceRead(msctTraceEvent* events, uint64_t capacity, uint64_t* count, uint64_t* dropped) {
  using namespace msct;
  return guarded(ACLNN_ERR_INNER, __func__, [&]() -> int32_t {
    if (int32_t status =
            check_not_null(ACLNN_ERR_PARAM_NULLPTR, "msctTraceRead", {{"count", count}, {"dropped", dropped}})) {
      return status;
    }
    if (capacity > 0) {
      if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, "msctTraceRead", {{"events", events}})) {
        return status;
      }
    }
    int64_t lost = 0;
    const std::vector<TraceEvent> recorded = read_trace(&lost);
    for (size_t i = 0; i < recorded.size() && i < capacity; ++i) {
      const TraceEvent& event = recorded[i];
      events[i] = {name_of(event.phase), detail_of(event), event.thread, event.start, event.end,
                   event.flops,          event.bytes};
    }
    *count = recorded.size();
    *dropped = static_cast<uint64_t>(lost);
    return ACLNN_SUCCESS;
  });
}

aclnnStatus msctMeasurePeaks(msctPeaks* peaks) {
  using namespace msct;
  return guarded(ACLNN_ERR_INNER, __func__, [&]() -> int32_t {
    if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, "msctMeasurePeaks", {{"peaks", peaks}})) return status;
    DispatchOptions options;
    if (int32_t status = current_options("msctMeasurePeaks", &options)) return status;
    const Peaks measured = measure_peaks(options.features, options.threads);
    *peaks = {measured.flops, measured.bytes, options.threads, measured.bfloat16_flops};
    return ACLNN_SUCCESS;
  });
}
