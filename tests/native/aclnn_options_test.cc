// Options, what msctGetInfo says about them, and the plan as data.
#include <cstdlib>

#include "kernels/cpu/registry.h"
#include "kernels/dispatch/features.h"
#include "ms_convtanh/ms_convtanh.h"
#include "tests/native/aclnn_test_util.h"

using namespace msct_test;

namespace {

msctInfo info() {
  msctInfo got = {};
  CHECK_EQ(msctGetInfo(&got), ACLNN_SUCCESS);
  return got;
}

// Sets an environment variable and lets the option follow it; both go back afterwards.
struct Environment {
  const char *option, *variable;
  Environment(const char* option_name, const char* variable_name, const char* value)
      : option(option_name), variable(variable_name) {
    setenv(variable, value, 1);
    CHECK_EQ(msctSetOption(option, nullptr), ACLNN_SUCCESS);
  }
  ~Environment() {
    unsetenv(variable);
    CHECK_EQ(msctSetOption(option, nullptr), ACLNN_SUCCESS);
  }
};

}  // namespace

TEST(version) { CHECK(std::string(msctGetVersion()).find('.') != std::string::npos); }

TEST(every_runnable_variant_can_be_chosen_and_runs) {
  for (const msct::K1Variant& variant : msct::k1_variants()) {
    if ((variant.features & ~msct::detected_features()) != 0) continue;
    CHECK_EQ(msctSetOption("max_isa", variant.name), ACLNN_SUCCESS);
    CHECK_EQ(std::string(info().k1), variant.name);
    CHECK_EQ(std::string(info().k2), variant.name);
    CHECK_EQ(std::string(info().max_isa), variant.name);
    const std::string allowed = info().allowed;
    CHECK_EQ(allowed.substr(0, allowed.find(',')), variant.name);
    Call call = small_call();
    CHECK_EQ(std::string(plan_of(&call).k1), variant.name);
    for (const char* fusion : {"half", "true"}) {
      CHECK_EQ(msctSetOption("fusion", fusion), ACLNN_SUCCESS);
      CHECK_EQ(std::string(info().fusion), fusion);
      CHECK_EQ(std::string(plan_of(&call).fusion), fusion);
      run_and_check(call);
    }
    CHECK_EQ(msctSetOption("fusion", nullptr), ACLNN_SUCCESS);
  }
  CHECK_EQ(msctSetOption("max_isa", nullptr), ACLNN_SUCCESS);
  CHECK_EQ(std::string(info().max_isa), "");
  CHECK_EQ(std::string(info().fusion), "auto");
}

TEST(lists_of_variants) {
  const msctInfo got = info();
  CHECK_EQ(std::string(got.detected), std::string(got.allowed));
  std::string built;
  for (const msct::K1Variant& variant : msct::k1_variants())
    built += (built.empty() ? "" : ",") + std::string(variant.name);
  CHECK_EQ(std::string(got.built), built);
  CHECK(std::string(got.detected).find("portable") != std::string::npos);
  CHECK(std::string(got.compiler).size() > 4);
}

TEST(a_ceiling_is_not_a_demand) {
  CHECK_EQ(msctSetOption("max_isa", "avx512"), ACLNN_SUCCESS);  // also where there is no such thing
  CHECK_EQ(std::string(info().allowed), std::string(info().detected));
  CHECK_EQ(msctSetOption("max_isa", nullptr), ACLNN_SUCCESS);
}

TEST(number_of_threads) {
  const int64_t all = info().threads;
  CHECK(all >= 1);
  CHECK_EQ(msctSetOption("num_threads", "1"), ACLNN_SUCCESS);
  CHECK_EQ(info().threads, 1);
  CHECK_EQ(msctSetOption("num_threads", "1000000"), ACLNN_SUCCESS);
  CHECK_EQ(info().threads, all);  // never above what the process may use
  CHECK_EQ(msctSetOption("num_threads", nullptr), ACLNN_SUCCESS);
}

TEST(options_that_are_refused) {
  const struct {
    const char *name, *value, *message;
  } cases[] = {
      {"speed", "high", "msctSetOption: name must be one of max_isa, fusion, num_threads, tuning, got \"speed\""},
      {"fusion", "full", "msctSetOption: fusion must be one of auto, half, true, got \"full\""},
      {"fusion", "", "msctSetOption: fusion must be one of auto, half, true, got \"\""},
      {"num_threads", "0", "msctSetOption: num_threads must be a whole number from 1 to 1000000, got \"0\""},
      {"num_threads", "-1", "msctSetOption: num_threads must be a whole number from 1 to 1000000, got \"-1\""},
      {"num_threads", "2x", "msctSetOption: num_threads must be a whole number from 1 to 1000000, got \"2x\""},
      {"num_threads", " 2", "msctSetOption: num_threads must be a whole number from 1 to 1000000, got \" 2\""},
      {"num_threads", "99999999999999999999",
       "msctSetOption: num_threads must be a whole number from 1 to 1000000, got \"99999999999999999999\""},
  };
  for (const auto& refused : cases) {
    CHECK_EQ(msctSetOption(refused.name, refused.value), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(recent_message(), refused.message);
  }
  for (const char* isa : {"avx1024", "AVX2", "avx2 ", ""}) {
    CHECK_EQ(msctSetOption("max_isa", isa), ACLNN_ERR_PARAM_INVALID);
    CHECK_EQ(recent_message(),
             std::string("msctSetOption: max_isa must be one of ") + msct::ceiling_names() + ", got \"" + isa + "\"");
  }
  CHECK_EQ(msctSetOption(nullptr, "1"), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(msctGetInfo(nullptr), ACLNN_ERR_PARAM_NULLPTR);
  run_and_check(small_call());  // none of it took effect
}

TEST(environment_variables) {
  {
    const Environment ceiling("max_isa", "MS_CONVTANH_MAX_ISA", "portable");
    CHECK_EQ(std::string(info().k1), "portable");
    CHECK_EQ(msctSetOption("max_isa", "avx512"), ACLNN_SUCCESS);  // the option stands above the variable
    CHECK_EQ(std::string(info().allowed), std::string(info().detected));
  }
  {
    const Environment fusion("fusion", "MS_CONVTANH_FUSION", "half");
    CHECK_EQ(std::string(info().fusion), "half");
  }
  {
    const Environment empty("fusion", "MS_CONVTANH_FUSION", "");
    CHECK_EQ(std::string(info().fusion), "auto");
  }
}

TEST(an_unknown_value_in_the_environment_fails_every_call) {
  const struct {
    const char *option, *variable, *message;
  } cases[] = {
      {"fusion", "MS_CONVTANH_FUSION", "MS_CONVTANH_FUSION must be one of auto, half, true, got \"bogus\""},
      {"num_threads", "MS_CONVTANH_NUM_THREADS",
       "MS_CONVTANH_NUM_THREADS must be a whole number from 1 to 1000000, got \"bogus\""},
      {"max_isa", "MS_CONVTANH_MAX_ISA", "MS_CONVTANH_MAX_ISA must be one of "},
  };
  for (const auto& unknown : cases) {
    const Environment bogus(unknown.option, unknown.variable, "bogus");
    Call call = small_call();
    CHECK_EQ(call.run(), ACLNN_ERR_PARAM_INVALID);
    CHECK(recent_message().find(std::string("aclnnFusedConvTanh: ") + unknown.message) == 0);
    msctInfo got;
    CHECK_EQ(msctGetInfo(&got), ACLNN_ERR_PARAM_INVALID);
    CHECK(recent_message().find(std::string("msctGetInfo: ") + unknown.message) == 0);
  }
  run_and_check(small_call());
}

TEST(the_plan_is_what_phase1_asks_for) {
  for (const char* fusion : {"half", "true"}) {
    CHECK_EQ(msctSetOption("fusion", fusion), ACLNN_SUCCESS);
    Call call = small_call();
    const msctPlan plan = plan_of(&call);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK_EQ(call.phase1(&size, &executor), ACLNN_SUCCESS);
    CHECK_EQ(plan.workspaceSize, size);
    CHECK(plan.tileRows >= 1 && plan.tileCols >= 1 && plan.tileCo >= 1 && plan.tileCi >= 1 && plan.threads >= 1);
    CHECK_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
  }
  CHECK_EQ(msctSetOption("fusion", nullptr), ACLNN_SUCCESS);
}

TEST(the_plan_of_nothing_to_do) {
  Call call = small_call();
  call.x = tensor_of({0, 4, 6, 6});
  call.y = tensor_of({0, 6, 4, 4});
  const msctPlan plan = plan_of(&call);
  CHECK_EQ(plan.workspaceSize, 0u);
  CHECK_EQ(std::string(plan.k1), info().k1);
}

TEST(explaining_makes_the_checks_of_phase1) {
  Call call = small_call();
  call.groups = 3;
  const TensorPointer x = call.x.make(), filter = call.filter.make(), y = call.y.make();
  const auto two = array_of({1, 1});
  msctPlan plan;
  CHECK_EQ(
      msctExplainFusedConvTanh(x.get(), filter.get(), nullptr, two.get(), two.get(), two.get(), 3, 0, y.get(), &plan),
      ACLNN_ERR_PARAM_INVALID);
  CHECK(recent_message().find("aclnnFusedConvTanh: groups must divide") == 0);
  CHECK_EQ(
      msctExplainFusedConvTanh(x.get(), filter.get(), nullptr, two.get(), two.get(), two.get(), 2, 0, y.get(), nullptr),
      ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(
      msctExplainFusedConvTanh(nullptr, filter.get(), nullptr, two.get(), two.get(), two.get(), 2, 0, y.get(), &plan),
      ACLNN_ERR_PARAM_NULLPTR);
}
