#include "aclnn/src/options.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"
#include "aclnn/src/handles.h"
#include "aclnn/src/tuning.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/dispatch/features.h"
#include "ms_convtanh/ms_convtanh.h"

namespace msct {
namespace {

constexpr struct {
  const char* name;
  const char* variable;
} kNames[kOptions] = {
    {"max_isa", "MS_CONVTANH_MAX_ISA"},
    {"fusion", "MS_CONVTANH_FUSION"},
    {"num_threads", "MS_CONVTANH_NUM_THREADS"},
    {"tuning", "MS_CONVTANH_TUNING"},
};

constexpr char kNoTuning[] = "off";

// Each of these applies a value, or returns what values there are if it is not one of them.

std::string parse_max_isa(const std::string& value, DispatchOptions* options) {
  uint32_t mask;
  if (!ceiling_mask(value.c_str(), &mask)) return std::string("one of ") + ceiling_names();
  options->features &= mask;
  return "";
}

std::string parse_fusion(const std::string& value, DispatchOptions* options) {
  if (value == "auto") {
    options->fusion = Fusion::kAuto;
  } else if (value == "half") {
    options->fusion = Fusion::kHalf;
  } else if (value == "true") {
    options->fusion = Fusion::kTrue;
  } else {
    return "one of auto, half, true";
  }
  return "";
}

std::string parse_num_threads(const std::string& value, DispatchOptions* options) {
  constexpr char kExpected[] = "a whole number from 1 to 1000000";
  if (value.find_first_not_of("0123456789") != std::string::npos || value.size() > 7) return kExpected;
  const int64_t threads = std::atoll(value.c_str());
  if (threads < 1 || threads > 1000000) return kExpected;
  options->threads = std::min(options->threads, threads);
  return "";
}

std::string parse(Option option, const std::string& value, DispatchOptions* options) {
  switch (option) {
    case kMaxIsa: return parse_max_isa(value, options);
    case kFusion: return parse_fusion(value, options);
    case kNumThreads: return parse_num_threads(value, options);
    default: return "";  // a tuning is kept beside the options
  }
}

struct State {
  std::string values[kOptions];
  bool from_environment[kOptions];
  DispatchOptions parsed;
  std::string error;  // why no call can be planned, "" if none
  std::shared_ptr<const TuningTable> tuning;
  std::string tuning_ignored;  // why, "" if it is not
  int64_t tuning_version = 0;
};

void read_environment(State* state, Option option) {
  const char* value = std::getenv(kNames[option].variable);
  state->values[option] = value == nullptr ? "" : value;
  state->from_environment[option] = true;
}

void parse_all(State* state) {
  state->parsed = {detected_features(), Fusion::kAuto, available_threads()};
  state->error.clear();
  for (int i = 0; i < kOptions; ++i) {
    if (state->values[i].empty()) continue;
    const std::string expected = parse(static_cast<Option>(i), state->values[i], &state->parsed);
    if (expected.empty()) continue;
    state->error = std::string(kNames[i].variable) + " must be " + expected + ", got \"" + state->values[i] + "\"";
    return;
  }
}

// Reads the file of the tuning in force. One that cannot be used changes no result: it is ignored.
void read_tuning(State* state) {
  const std::string& path = state->values[kTuning];
  state->tuning = nullptr;
  state->tuning_ignored.clear();
  if (!path.empty() && path != kNoTuning) state->tuning = TuningTable::read(path, &state->tuning_ignored);
  ++state->tuning_version;
}

// To be called under the library's lock.
State& state() {
  static State* made = [] {
    auto* first = new State;
    for (int i = 0; i < kOptions; ++i) read_environment(first, static_cast<Option>(i));
    parse_all(first);
    read_tuning(first);
    return first;
  }();
  return *made;
}

int32_t set_tuning(State* state, const char* value) {
  const std::string before = state->values[kTuning];
  if (value == nullptr) {
    read_environment(state, kTuning);
  } else {
    state->values[kTuning] = value;
  }
  read_tuning(state);
  if (value == nullptr || state->tuning_ignored.empty()) return ACLNN_SUCCESS;
  const std::string reason = state->tuning_ignored;
  state->values[kTuning] = before;
  read_tuning(state);
  return fail(ACLNN_ERR_PARAM_INVALID, "msctSetOption",
              "tuning must be \"off\" or a file of ms-convtanh tune for this CPU and version, got \"%s\": %s", value,
              reason.c_str());
}

}  // namespace

int32_t current_options(const char* function, DispatchOptions* options) {
  const std::lock_guard<std::mutex> lock(library_mutex());
  if (!state().error.empty()) return fail(ACLNN_ERR_PARAM_INVALID, function, "%s", state().error.c_str());
  *options = state().parsed;
  return ACLNN_SUCCESS;
}

std::string option_text(Option option) {
  const std::lock_guard<std::mutex> lock(library_mutex());
  return state().values[option];
}

std::shared_ptr<const TuningTable> current_tuning(std::string* ignored) {
  const std::lock_guard<std::mutex> lock(library_mutex());
  if (ignored != nullptr) *ignored = state().tuning_ignored;
  return state().tuning;
}

int64_t tuning_version() {
  const std::lock_guard<std::mutex> lock(library_mutex());
  return state().tuning_version;
}

}  // namespace msct

aclnnStatus msctSetOption(const char* name, const char* value) {
  return msct::guarded(ACLNN_ERR_INNER, __func__, [&]() -> int32_t {
    if (int32_t status = msct::check_not_null(ACLNN_ERR_PARAM_NULLPTR, "msctSetOption", {{"name", name}})) {
      return status;
    }
    int option = 0;
    while (option < msct::kOptions && std::strcmp(msct::kNames[option].name, name) != 0) ++option;
    if (option == msct::kOptions) {
      return msct::fail(ACLNN_ERR_PARAM_INVALID, "msctSetOption",
                        "name must be one of max_isa, fusion, num_threads, tuning, got \"%s\"", name);
    }
    const std::lock_guard<std::mutex> lock(msct::library_mutex());
    msct::State& state = msct::state();
    if (option == msct::kTuning) return msct::set_tuning(&state, value);
    if (value == nullptr) {
      msct::read_environment(&state, static_cast<msct::Option>(option));
    } else {
      msct::DispatchOptions ignored = state.parsed;
      const std::string expected = msct::parse(static_cast<msct::Option>(option), value, &ignored);
      if (!expected.empty()) {
        return msct::fail(ACLNN_ERR_PARAM_INVALID, "msctSetOption", "%s must be %s, got \"%s\"", name, expected.c_str(),
                          value);
      }
      state.values[option] = value;
    }
    msct::parse_all(&state);
    return ACLNN_SUCCESS;
  });
}
