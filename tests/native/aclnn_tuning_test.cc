// The tuning file: what it changes, and what is refused or ignored.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "aclnn/src/tuning.h"
#include "kernels/cpu/registry.h"
#include "kernels/dispatch/features.h"
#include "ms_convtanh/ms_convtanh.h"
#include "tests/native/aclnn_test_util.h"

using namespace msct_test;

namespace {

// A file for as long as a test runs, and no tuning afterwards.
struct File {
  std::string path = "/tmp/msct_tuning_test_" + std::to_string(getpid()) + ".yaml";
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  ~File() {
    std::remove(path.c_str());
    CHECK_EQ(msctSetOption("tuning", "off"), ACLNN_SUCCESS);
  }
};

std::string header(const std::string& library = msctGetVersion(), const std::string& cpu = msctGetCpuModel(),
                   const std::string& format = "1") {
  return "# A comment\n\nformat: " + format + "\nlibrary: " + library + "\ncpu: " + cpu + "\nentries:\n";
}

const char* isa() { return msct::best_variant(msct::k1_variants(), msct::detected_features())->name; }

// An entry for small_call().
std::string entry(const std::string& setting, const std::string& pads = "[0, 0, 0, 0]") {
  return std::string("- {isa: ") + isa() +
         ", dtype: float32, x: [2, 4, 6, 6], filter: [6, 2, 3, 3], strides: [1, 1], pads: " + pads +
         ", dilations: [1, 1], groups: 2" + setting + "}\n";
}

std::string tuning_in_force() {
  msctInfo info = {};
  CHECK_EQ(msctGetInfo(&info), ACLNN_SUCCESS);
  return info.tuning;
}

}  // namespace

TEST(an_entry_is_followed_by_its_problem_alone) {
  Call call = small_call();
  const msctPlan own = plan_of(&call);
  CHECK_EQ(std::string(own.fusion), "true");
  CHECK(own.tileRows > 1);
  const File file(header() + entry(", fusion: half, tile_elements: 1, gain: 1.5"));
  CHECK_EQ(msctSetOption("tuning", file.path.c_str()), ACLNN_SUCCESS);
  CHECK_EQ(tuning_in_force(), file.path);
  CHECK_EQ(std::string(plan_of(&call).fusion), "half");
  CHECK_EQ(plan_of(&call).tileRows, 1);
  run_and_check(call);
  Call other = small_call(ACL_FLOAT16);
  CHECK_EQ(std::string(plan_of(&other).fusion), "true");
  CHECK_EQ(msctSetOption("tuning", "off"), ACLNN_SUCCESS);
  CHECK_EQ(tuning_in_force(), "");
  CHECK_EQ(plan_of(&call).tileRows, own.tileRows);
}

TEST(what_a_caller_asks_for_stands_above_an_entry) {
  Call call = small_call();
  const File file(header() + entry(", fusion: \"half\", threads: 7"));
  CHECK_EQ(msctSetOption("tuning", file.path.c_str()), ACLNN_SUCCESS);
  CHECK_EQ(msctSetOption("fusion", "true"), ACLNN_SUCCESS);
  CHECK_EQ(std::string(plan_of(&call).fusion), "true");
  CHECK_EQ(msctSetOption("fusion", nullptr), ACLNN_SUCCESS);
  CHECK_EQ(plan_of(&call).threads, 1);  // it is small: 7 is a bound
  CHECK_EQ(msctSetOption("max_isa", "portable"), ACLNN_SUCCESS);  // tuned for another variant, unless there is no other
  CHECK_EQ(std::string(plan_of(&call).fusion), std::string(isa()) == "portable" ? "half" : "true");
  CHECK_EQ(msctSetOption("max_isa", nullptr), ACLNN_SUCCESS);
}

TEST(a_plan_made_before_is_made_anew) {
  Call call = small_call();
  for (const char* fusion : {"half", "true", "half"}) {
    const File file(header() + entry(std::string(", fusion: ") + fusion));
    CHECK_EQ(msctSetOption("tuning", file.path.c_str()), ACLNN_SUCCESS);
    CHECK_EQ(std::string(plan_of(&call).fusion), fusion);
  }
}

TEST(files_that_are_refused) {
  const struct {
    std::string text, reason;
  } cases[] = {
      {"", "format must be 1, got \"\"; tune anew"},
      {header("0.0.1"), "library must be " + std::string(msctGetVersion()) + ", got \"0.0.1\"; tune anew"},
      {header(msctGetVersion(), "Z80"), "cpu must be " + std::string(msctGetCpuModel()) + ", got \"Z80\"; tune anew"},
      {header(msctGetVersion(), msctGetCpuModel(), "2"), "format must be 1, got \"2\"; tune anew"},
      {std::string("\x7f\x45\x4c\x46\0\0", 6), "line 1: a line must be name: value"},
      {"speed: high", "line 1: unknown name speed"},
      {"- {isa", "line 1: an entry must be {name: value, ...}"},
      {"- isa: avx2", "line 1: an entry must be {name: value, ...}"},
      {"- {isa}", "line 1: an entry must be {name: value, ...}"},
      {"- {}", "line 1: an entry must be {name: value, ...}"},
      {"-", "line 1: an entry must be {name: value, ...}"},
      {"- {isa: avx2, dtype: float32}",
       "line 1: isa, dtype, x, filter, strides, pads, dilations and groups must be there, once each"},
      {entry("", "[0, 0]"), "line 1: pads must be whole numbers, got [0, 0]"},
      {entry("", "[0, 0, 0, x]"), "line 1: pads must be whole numbers, got [0, 0, 0, x]"},
      {entry("", "[0, 0, 0, 99999999999999999999]"),
       "line 1: pads must be whole numbers, got [0, 0, 0, 99999999999999999999]"},
      {entry(", unroll: 4"), "line 1: unknown name unroll"},
      {entry(", fusion: both"), "line 1: fusion must be half or true, got both"},
      {entry(", dtype: int8"), "line 1: dtype must be float32, float16 or bfloat16, got int8"},
      {entry(", block_channels: 0"), "line 1: block_channels must be from 1 to 16777216, got 0"},
      {entry(", threads: -1"), "line 1: threads must be from 1 to 16777216, got -1"},
      {entry(", tile_elements: 16777217"), "line 1: tile_elements must be from 1 to 16777216, got 16777217"},
      {entry(", tile_elements: 1.5"), "line 1: tile_elements must be whole numbers, got 1.5"},
  };
  const File good(header() + entry(", fusion: half"));
  Call call = small_call();
  for (const auto& refused : cases) {
    CHECK_EQ(msctSetOption("tuning", good.path.c_str()), ACLNN_SUCCESS);
    std::ofstream(good.path + ".bad") << refused.text;
    const std::string path = good.path + ".bad";
    CHECK_EQ(msctSetOption("tuning", path.c_str()), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(recent_message(),
             "msctSetOption: tuning must be \"off\" or a file of ms-convtanh tune for this CPU and version, got \"" +
                 path + "\": " + refused.reason);
    CHECK_EQ(tuning_in_force(), good.path);
    CHECK_EQ(std::string(plan_of(&call).fusion), "half");
    std::remove(path.c_str());
  }
  for (const char* unreadable : {"/nonexistent/tuning.yaml", "/tmp"}) {
    CHECK_EQ(msctSetOption("tuning", unreadable), ACLNN_ERR_PARAM_INVALID);
    CHECK(recent_message().find(": it cannot be read") != std::string::npos);
    CHECK_EQ(tuning_in_force(), good.path);
  }
}

TEST(a_bad_file_in_the_environment_is_ignored) {
  setenv("MS_CONVTANH_TUNING", "/nonexistent/tuning.yaml", 1);
  CHECK_EQ(msctSetOption("tuning", nullptr), ACLNN_SUCCESS);
  msctInfo info = {};
  CHECK_EQ(msctGetInfo(&info), ACLNN_SUCCESS);
  CHECK_EQ(std::string(info.tuning), "");
  CHECK_EQ(std::string(info.tuningIgnored), "it cannot be read");
  run_and_check(small_call());

  const File file(header() + entry(", fusion: half"));
  setenv("MS_CONVTANH_TUNING", file.path.c_str(), 1);
  CHECK_EQ(msctSetOption("tuning", nullptr), ACLNN_SUCCESS);
  CHECK_EQ(tuning_in_force(), file.path);
  for (const char* none : {"off", ""}) {
    setenv("MS_CONVTANH_TUNING", none, 1);
    CHECK_EQ(msctSetOption("tuning", nullptr), ACLNN_SUCCESS);
    CHECK_EQ(msctGetInfo(&info), ACLNN_SUCCESS);
    CHECK_EQ(std::string(info.tuning), "");
    CHECK_EQ(std::string(info.tuningIgnored), "");
  }
  unsetenv("MS_CONVTANH_TUNING");
  CHECK_EQ(msctSetOption("tuning", nullptr), ACLNN_SUCCESS);
}
