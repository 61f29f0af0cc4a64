// A graph pass for MindSpore that replaces Tanh(Conv2D(x, filter)) and Tanh(BiasAdd(Conv2D(x, filter), bias)) by the
// operator FusedConvTanh. _auto_fusion.py compiles it against the installed MindSpore and switches it on and off.
//
// MindSpore runs it on each graph that it compiles, forward or training, before it selects kernels. The gradients of a
// training graph are separate nodes by then. They read x, filter and the output of Tanh, which all stay; a graph where
// anything else reads the output of Conv2D or BiasAdd is left as it is.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mindspore/include/custom_pass_api.h"

#include "mindspore/ccsrc/include/backend/common/pass_manager/node_pass.h"

namespace msct {
namespace {

using mindspore::AnfNodePtr;
using mindspore::CNodePtr;
using mindspore::FuncGraphPtr;
using mindspore::TypeId;

// Receives one line for a fusion (fused = 1) or for a convolution with tanh that stays as it is (fused = 0).
using Report = void (*)(int fused, const char* message);

struct Settings {
  std::mutex mutex;
  std::string function;      // "<path of the library>:FusedConvTanh"
  Report report = nullptr;
  std::atomic<bool> enabled{false};
};

Settings& settings() {
  static auto* made = new Settings;  // never destroyed: MindSpore may compile while the process ends
  return *made;
}

// The node as a call of the primitive; null if it is none.
CNodePtr call_of(const AnfNodePtr& node, const char* primitive) {
  if (node == nullptr || !node->isa<mindspore::CNode>()) return nullptr;
  const auto called = mindspore::GetCNodePrimitive(node);
  return called != nullptr && called->name() == primitive ? node->cast<CNodePtr>() : nullptr;
}

// What reads the output of a node. UpdateState takes it for an order only: what changes parameters runs after the node.
struct Readers {
  Readers(const FuncGraphPtr& graph, const AnfNodePtr& node) {
    const auto& all = graph->manager()->node_users();
    const auto found = all.find(node);
    if (found == all.end()) return;
    for (const auto& [reader, index] : found->second) {
      if (call_of(reader, "UpdateState") == nullptr) {
        ++of_values;
      } else {
        of_order.emplace_back(reader, index);
      }
    }
  }

  size_t of_values = 0;
  std::vector<std::pair<AnfNodePtr, int>> of_order;  // and which of its inputs
};

// Whether the node is computed from any of the others.
bool depends_on(const AnfNodePtr& node, const std::vector<std::pair<AnfNodePtr, int>>& others) {
  std::set<AnfNodePtr> seen;
  std::vector<AnfNodePtr> todo = {node};
  while (!todo.empty()) {
    const AnfNodePtr next = todo.back();
    todo.pop_back();
    if (!seen.insert(next).second || !next->isa<mindspore::CNode>()) continue;
    if (std::any_of(others.begin(), others.end(), [&](const auto& other) { return other.first == next; })) return true;
    const auto& inputs = next->cast<CNodePtr>()->inputs();
    todo.insert(todo.end(), inputs.begin(), inputs.end());
  }
  return false;
}

// What a node computes, for the comparison of dtypes and ranks.
struct Value {
  explicit Value(const AnfNodePtr& node) {
    const auto tensor = dyn_cast_or_null(node);
    if (tensor == nullptr) return;
    dtype = tensor->element()->BuildType()->type_id();
    shape = tensor->shape()->shape();
  }
  static mindspore::abstract::AbstractTensorPtr dyn_cast_or_null(const AnfNodePtr& node) {
    const auto& abstract = node->abstract();
    return abstract == nullptr ? nullptr : abstract->cast<mindspore::abstract::AbstractTensorPtr>();
  }

  TypeId dtype = mindspore::kTypeUnknown;
  std::vector<int64_t> shape;
};

std::string as_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : "x") + (size < 0 ? std::string("?") : std::to_string(size));
  return text;
}

bool is_supported(TypeId dtype) {
  return dtype == mindspore::kNumberTypeFloat32 || dtype == mindspore::kNumberTypeFloat16 ||
         dtype == mindspore::kNumberTypeBFloat16;
}

// Attributes of Conv2D as those of FusedConvTanh.
struct Geometry {
  // False, with the reason in `problem`, where they mean something that the operator does not compute.
  bool read(const mindspore::PrimitivePtr& convolution) {
    std::string format;
    int64_t mode = 0;
    if (!string_of(convolution, "format", &format) || format != "NCHW") return fail("its format is not NCHW");
    if (!int_of(convolution, "mode", &mode) || mode != 1) return fail("its mode is not 1, a plain convolution");
    if (!int_of(convolution, "group", &groups)) return fail("its group is unknown");
    if (!string_of(convolution, "pad_mode", &pad_mode)) return fail("its pad_mode is unknown");
    if (pad_mode != "pad" && pad_mode != "same" && pad_mode != "valid") return fail("its pad_mode is " + pad_mode);
    if (!last_two_of(convolution, "stride", &strides)) return fail("its stride is unknown");
    if (!last_two_of(convolution, "dilation", &dilations)) return fail("its dilation is unknown");
    if (!ints_of(convolution, "pad", &pads) || pads.size() != 4) return fail("its pad is unknown");
    return true;
  }

  std::string pad_mode, problem;
  std::vector<int64_t> strides, pads, dilations;
  int64_t groups = 1;

 private:
  bool fail(const std::string& reason) {
    problem = reason;
    return false;
  }
  static bool string_of(const mindspore::PrimitivePtr& primitive, const char* name, std::string* value) {
    const auto attribute = primitive->GetAttr(name);
    if (attribute == nullptr || !attribute->isa<mindspore::StringImm>()) return false;
    *value = mindspore::GetValue<std::string>(attribute);
    return true;
  }
  static bool int_of(const mindspore::PrimitivePtr& primitive, const char* name, int64_t* value) {
    const auto attribute = primitive->GetAttr(name);
    if (attribute == nullptr || !attribute->isa<mindspore::Int64Imm>()) return false;
    *value = mindspore::GetValue<int64_t>(attribute);
    return true;
  }
  static bool ints_of(const mindspore::PrimitivePtr& primitive, const char* name, std::vector<int64_t>* values) {
    const auto attribute = primitive->GetAttr(name);
    if (attribute == nullptr || !attribute->isa<mindspore::ValueSequence>()) return false;
    const auto& items = attribute->cast<mindspore::ValueSequencePtr>()->value();
    values->clear();
    for (const auto& item : items) {
      if (!item->isa<mindspore::Int64Imm>()) return false;
      values->push_back(mindspore::GetValue<int64_t>(item));
    }
    return true;
  }
  // MindSpore writes (1, 1, h, w).
  static bool last_two_of(const mindspore::PrimitivePtr& primitive, const char* name, std::vector<int64_t>* values) {
    if (!ints_of(primitive, name, values) || values->size() < 2) return false;
    values->erase(values->begin(), values->end() - 2);
    return true;
  }
};

// The primitive that _custom.py makes, with the attributes that MindSpore reads from it here and at run time.
mindspore::PrimitivePtr fused_primitive(const Geometry& geometry, bool has_bias, const std::string& function) {
  using Strings = std::vector<std::string>;
  Strings inputs = {"x", "conv_filter"};
  if (has_bias) inputs.push_back("bias");
  auto primitive = std::make_shared<mindspore::Primitive>("Custom");
  const auto set = [&](const char* name, const auto& value) {
    (void)primitive->AddAttr(name, mindspore::MakeValue(value));
  };
  set("reg_op_name", std::string(has_bias ? "FusedConvTanhBias" : "FusedConvTanh"));
  set("func_type", std::string("aot"));
  set("func_name", function);
  set("primitive_target", std::string("CPU"));
  set("cpp_infer_shape", true);
  set("cpp_infer_type", true);
  set("input_names", inputs);
  set("pure_input_names", inputs);
  set("output_names", Strings{"y"});
  set("attr_names", Strings{"strides", "pads", "dilations", "groups", "pad_mode"});
  set("strides", geometry.strides);
  set("pads", geometry.pads);
  set("dilations", geometry.dilations);
  set("groups", geometry.groups);
  set("pad_mode", geometry.pad_mode);
  return primitive;
}

class FuseConvTanh : public mindspore::opt::NodePass {
 public:
  FuseConvTanh() : NodePass("FuseConvTanh") {}

  // What replaces the node; null to keep it.
  AnfNodePtr Run(const FuncGraphPtr& graph, const AnfNodePtr& node) override {
    const auto tanh = call_of(node, "Tanh");
    if (!settings().enabled || tanh == nullptr || graph->manager() == nullptr) return nullptr;
    const auto bias_add = call_of(tanh->input(1), "BiasAdd");
    const auto convolution = call_of(bias_add == nullptr ? tanh->input(1) : bias_add->input(1), "Conv2D");
    if (convolution == nullptr) return nullptr;
    Geometry geometry;
    const std::string problem = reason_to_keep(graph, tanh, bias_add, convolution, &geometry);
    const std::string name = convolution->fullname_with_scope();
    if (!problem.empty()) {
      report(false, name + " and tanh stay as they are: " + problem);
      return nullptr;
    }
    std::vector<AnfNodePtr> inputs = {nullptr, convolution->input(1), convolution->input(2)};
    std::vector<AnfNodePtr> replaced = {convolution, tanh};
    if (bias_add != nullptr) {
      inputs.push_back(bias_add->input(2));
      replaced.push_back(bias_add);
    }
    inputs[0] = mindspore::NewValueNode(fused_primitive(geometry, bias_add != nullptr, function()));
    const auto fused = mindspore::opt::NewCNode(inputs, graph, replaced);
    fused->set_abstract(tanh->abstract());
    fused->set_scope(tanh->scope());
    for (const auto& node : replaced) {
      if (node == tanh) continue;  // MindSpore puts the result of this function in its place
      for (const auto& [reader, index] : Readers(graph, node).of_order) graph->manager()->SetEdge(reader, index, fused);
    }
    report(true, name + " and tanh became FusedConvTanh: x " + as_text(Value(convolution->input(1)).shape) +
                     ", filter " + as_text(Value(convolution->input(2)).shape) + ", " +
                     mindspore::TypeIdToString(Value(tanh).dtype, true));
    return fused;
  }

 private:
  static std::string function() {
    const std::lock_guard<std::mutex> lock(settings().mutex);
    return settings().function;
  }
  static void report(bool fused, const std::string& message) {
    Report receiver = nullptr;
    {
      const std::lock_guard<std::mutex> lock(settings().mutex);
      receiver = settings().report;
    }
    if (receiver != nullptr) receiver(fused ? 1 : 0, message.c_str());
  }

  // Empty, with the geometry filled in, if the nodes can be fused.
  static std::string reason_to_keep(const FuncGraphPtr& graph, const CNodePtr& tanh, const CNodePtr& bias_add,
                                    const CNodePtr& convolution, Geometry* geometry) {
    const Readers readers(graph, convolution);
    if (readers.of_values != 1 || (bias_add != nullptr && Readers(graph, bias_add).of_values != 1)) {
      return "something else reads the convolution's output";
    }
    if (bias_add != nullptr && depends_on(bias_add->input(2), readers.of_order)) {
      return "its bias changes after the convolution has run";
    }
    const Value x(convolution->input(1)), filter(convolution->input(2)), y(tanh);
    if (!is_supported(x.dtype)) return "its dtype is not float32, float16 or bfloat16";
    if (filter.dtype != x.dtype || y.dtype != x.dtype) return "its tensors have different dtypes";
    if (x.shape.size() != 4 || filter.shape.size() != 4) return "its tensors are not known to have four axes";
    if (bias_add != nullptr) {
      if (Value(bias_add->input(2)).dtype != x.dtype) return "its bias has another dtype";
      if (!adds_to_channels(bias_add)) return "its bias is not added to channels";
    }
    return geometry->read(mindspore::GetCNodePrimitive(convolution)) ? "" : geometry->problem;
  }

  // Whether BiasAdd's format, an input that is a constant, is NCHW.
  static bool adds_to_channels(const CNodePtr& bias_add) {
    constexpr size_t kFormatInput = 3;
    if (bias_add->size() <= kFormatInput) return false;
    const auto format = mindspore::GetValueNode(bias_add->input(kFormatInput));
    return format != nullptr && format->isa<mindspore::Int64Imm>() &&
           mindspore::GetValue<int64_t>(format) == mindspore::Format::NCHW;
  }
};

class Plugin : public mindspore::opt::CustomPassPlugin {
 public:
  std::string GetPluginName() const override { return "ms_convtanh"; }
  std::vector<std::string> GetAvailablePassNames() const override { return {"FuseConvTanh"}; }
  std::shared_ptr<mindspore::opt::Pass> CreatePass(const std::string& name) const override {
    return name == "FuseConvTanh" ? std::make_shared<FuseConvTanh>() : nullptr;
  }
};

}  // namespace
}  // namespace msct

EXPORT_CUSTOM_PASS_PLUGIN(msct::Plugin)

#define MSCT_ENTRY extern "C" __attribute__((visibility("default")))

// function: "<path of the library>:FusedConvTanh". report may be null.
MSCT_ENTRY void msctEnableFusion(const char* function, msct::Report report) {
  auto& settings = msct::settings();
  {
    const std::lock_guard<std::mutex> lock(settings.mutex);
    settings.function = function;
    settings.report = report;
  }
  settings.enabled = true;
}

MSCT_ENTRY void msctDisableFusion() {
  auto& settings = msct::settings();
  settings.enabled = false;
  const std::lock_guard<std::mutex> lock(settings.mutex);
  settings.report = nullptr;
}
