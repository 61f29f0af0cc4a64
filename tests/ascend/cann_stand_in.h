// Stands in for CANN where the operator project is compiled and run on a CPU: the calls and macros that aclnn/ascend
// uses, and no more. Executors record launches, contexts hand out what a test puts into them.
#ifndef MS_CONVTANH_TESTS_ASCEND_CANN_STAND_IN_H_
#define MS_CONVTANH_TESTS_ASCEND_CANN_STAND_IN_H_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "aclnn/opdev/op_errno.h"

namespace ge {
enum DataType { DT_FLOAT = 0, DT_FLOAT16 = 1, DT_BF16 = 27 };
enum Format { FORMAT_ND = 2 };
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xFFFFFFFF;
}  // namespace ge

namespace gert {
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : sizes(sizes) {}
  size_t GetDimNum() const { return sizes.size(); }
  int64_t GetDim(size_t i) const { return sizes.at(i); }
  void SetDimNum(size_t count) { sizes.resize(count); }
  void SetDim(size_t i, int64_t size) { sizes.at(i) = size; }
  std::vector<int64_t> sizes;
};

struct Ints {
  const int64_t* GetData() const { return values.data(); }
  size_t GetSize() const { return values.size(); }
  std::vector<int64_t> values;
};

struct RuntimeAttrs {
  const Ints* GetListInt(size_t i) const { return i < lists.size() ? &lists[i] : nullptr; }
  std::vector<Ints> lists;
};
}  // namespace gert

namespace op {
using ge::DataType;
using gert::Shape;
}  // namespace op

struct aclTensor {
  const op::Shape& GetViewShape() const { return shape; }
  op::DataType GetDataType() const { return static_cast<op::DataType>(dtype); }
  std::string name;
  op::Shape shape;
  std::vector<int64_t> strides, storage;
  int64_t offset;
  aclDataType dtype;
  aclFormat format;
};

struct aclIntArray {
  const int64_t* GetData() const { return values.data(); }
  uint64_t Size() const { return values.size(); }
  std::vector<int64_t> values;
};

namespace stand_in {

inline std::string last_message;

[[gnu::format(printf, 1, 2)]] inline void log(const char* format, ...) {
  char text[2048];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  last_message = text;
}

struct Launch {
  std::string name;
  std::vector<const aclTensor*> inputs, outputs;
  std::vector<int64_t> attribute;
};

inline int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) result *= size;
  return result;
}

inline std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

}  // namespace stand_in

struct aclOpExecutor {
  aclTensor* AllocTensor(const op::Shape& shape, op::DataType dtype) {
    const auto sizes = shape.sizes;
    tensors.push_back({"t" + std::to_string(tensors.size()), shape, stand_in::contiguous_strides(sizes), sizes, 0,
                       static_cast<aclDataType>(dtype), ACL_FORMAT_ND});
    return &tensors.back();
  }
  aclIntArray* AllocIntArray(const int64_t* values, uint64_t size) {
    arrays.push_back({{values, values + size}});
    return &arrays.back();
  }
  uint64_t GetWorkspaceSize() const {
    uint64_t bytes = 0;
    for (const aclTensor& t : tensors) bytes += stand_in::product(t.shape.sizes) * (t.dtype == ACL_FLOAT ? 4 : 2);
    return bytes;
  }
  aclnnStatus add(const char* name, std::vector<const aclTensor*> inputs, std::vector<const aclTensor*> outputs,
                  const aclIntArray* attribute) {
    launches.push_back({name, std::move(inputs), std::move(outputs), attribute->values});
    return ACLNN_SUCCESS;
  }
  std::deque<aclTensor> tensors;  // addresses stay
  std::deque<aclIntArray> arrays;
  std::vector<stand_in::Launch> launches;
};

class UniqueExecutor {
 public:
  aclOpExecutor* get() { return made_.get(); }
  aclOpExecutor* operator->() { return made_.get(); }
  void ReleaseTo(aclOpExecutor** executor) { *executor = made_.release(); }

 private:
  std::unique_ptr<aclOpExecutor> made_ = std::make_unique<aclOpExecutor>();
};

inline aclnnStatus CommonOpExecutorRun(void*, uint64_t, aclOpExecutor*, aclrtStream) { return ACLNN_SUCCESS; }

namespace l0op {
inline const aclTensor* Contiguous(const aclTensor* x, aclOpExecutor* executor) {
  if (x->strides == stand_in::contiguous_strides(x->shape.sizes) && x->offset == 0) return x;
  const aclTensor* copy = executor->AllocTensor(x->shape, x->GetDataType());
  executor->launches.push_back({"Contiguous", {x}, {copy}, {}});
  return copy;
}
inline const aclTensor* ViewCopy(const aclTensor* x, const aclTensor* y, aclOpExecutor* executor) {
  executor->launches.push_back({"ViewCopy", {x}, {y}, {}});
  return y;
}
}  // namespace l0op

// The names of macros end in what CANN checks of them: that they name the function that they are in.
#define STAND_IN_CHECK_NAME(name, function) \
  if (std::string_view(name) != (function)) std::abort()
#define L2_DFX_PHASE_1(name, in, out)                      \
  STAND_IN_CHECK_NAME(#name "GetWorkspaceSize", __func__); \
  if (workspaceSize == nullptr || executor == nullptr) return ACLNN_ERR_PARAM_NULLPTR
#define L2_DFX_PHASE_2(name) STAND_IN_CHECK_NAME(#name, __func__)
#define L0_DFX(name, ...)               \
  STAND_IN_CHECK_NAME(#name, __func__); \
  (void)std::make_tuple(__VA_ARGS__)
#define DFX_IN(...) std::make_tuple(__VA_ARGS__)
#define DFX_OUT(...) std::make_tuple(__VA_ARGS__)
#define CREATE_EXECUTOR() UniqueExecutor()
#define OP_TYPE_REGISTER(name) static_assert(true)
#define OP_INPUT(...) {__VA_ARGS__}
#define OP_OUTPUT(...) {__VA_ARGS__}
#define OP_ATTR(attribute) attribute
#define ADD_TO_LAUNCHER_LIST_AICORE(name, ...) executor->add(#name, __VA_ARGS__)

#define OP_LOGE(ignored, ...) ((void)(ignored), stand_in::log(__VA_ARGS__))
#define CHECK_RET(condition, result) \
  if (!(condition)) return result
#define OP_CHECK(condition, log, result) \
  if (!(condition)) {                    \
    log;                                 \
    result;                              \
  }
#define OP_CHECK_IF(condition, log, result) OP_CHECK(!(condition), log, result)
#define OP_CHECK_NULL_WITH_CONTEXT(context, pointer) \
  if ((pointer) == nullptr) return ge::GRAPH_FAILED
#define OP_CHECK_ADD_TO_LAUNCHER_LIST_AICORE(condition, result, ...) \
  OP_CHECK_IF(condition, stand_in::log(__VA_ARGS__), result)

namespace fe {
struct PlatFormInfos {
  uint32_t cores;
};
}  // namespace fe

namespace platform_ascendc {
class PlatformAscendC {
 public:
  explicit PlatformAscendC(fe::PlatFormInfos* infos) : infos_(infos) {}
  uint32_t GetCoreNumAic() const { return infos_->cores; }

 private:
  fe::PlatFormInfos* infos_;
};
}  // namespace platform_ascendc

namespace gert {

struct TilingContext {
  const RuntimeAttrs* GetAttrs() const { return &attributes; }
  fe::PlatFormInfos* GetPlatformInfo() const { return platform; }
  template <typename T>
  T* GetTilingData() {
    data.assign(sizeof(T) / sizeof(int64_t), -1);
    return reinterpret_cast<T*>(data.data());
  }
  size_t* GetWorkspaceSizes(size_t) { return &workspace; }
  void SetTilingKey(uint64_t value) { key = value; }
  void SetBlockDim(uint32_t value) { blocks = value; }
  RuntimeAttrs attributes;
  fe::PlatFormInfos* platform;
  std::vector<int64_t> data;
  size_t workspace = 1;
  uint64_t key = 0;
  uint32_t blocks = 0;
};

struct TilingParseContext {};

struct InferShapeContext {
  const Shape* GetInputShape(size_t i) const { return &inputs.at(i); }
  Shape* GetOutputShape(size_t) { return &output; }
  const RuntimeAttrs* GetAttrs() const { return &attributes; }
  std::vector<Shape> inputs;
  Shape output;
  RuntimeAttrs attributes;
};

struct InferDataTypeContext {
  ge::DataType GetInputDataType(size_t) const { return input; }
  void SetOutputDataType(size_t, ge::DataType value) { output = value; }
  ge::DataType input, output;
};

}  // namespace gert

namespace stand_in {

// What the operator project registers.
struct Implementation {
  std::function<ge::graphStatus(gert::TilingContext*)> tiling;
  std::function<ge::graphStatus(gert::InferShapeContext*)> infer_shape;
  size_t tiling_bytes = 0;
};

inline std::map<std::string, Implementation>& implementations() {
  static std::map<std::string, Implementation> all;
  return all;
}

struct Register {
  explicit Register(const char* name) : made(&implementations()[name]) {}
  Register& Tiling(ge::graphStatus (*function)(gert::TilingContext*)) {
    made->tiling = function;
    return *this;
  }
  template <typename CompileInfo>
  Register& TilingParse(ge::graphStatus (*)(gert::TilingParseContext*)) {
    return *this;
  }
  Register& InferShape(ge::graphStatus (*function)(gert::InferShapeContext*)) {
    made->infer_shape = function;
    return *this;
  }
  Register& InferDataType(ge::graphStatus (*)(gert::InferDataTypeContext*)) { return *this; }
  Register& TilingBytes(size_t bytes) {
    made->tiling_bytes = bytes;
    return *this;
  }
  Implementation* made;
};

}  // namespace stand_in

#define IMPL_OP_OPTILING(name) [[maybe_unused]] static auto tiling_of_##name = stand_in::Register(#name)
#define IMPL_OP_INFERSHAPE(name) [[maybe_unused]] static auto shape_of_##name = stand_in::Register(#name)
#define BEGIN_TILING_DATA_DEF(name) struct name {
#define TILING_DATA_FIELD_DEF_ARR(type, count, name) type name[count]
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(name, type) \
  [[maybe_unused]] static auto bytes_of_##name = stand_in::Register(#name).TilingBytes(sizeof(type));

namespace ops {

enum Option { OPTIONAL, REQUIRED };

struct OpParamDef {
  OpParamDef& ParamType(Option value) { return presence = value, *this; }
  OpParamDef& DataType(std::vector<ge::DataType> value) { return dtypes = std::move(value), *this; }
  OpParamDef& Format(std::vector<ge::Format> value) { return formats = std::move(value), *this; }
  OpParamDef& UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
  std::string name;
  Option presence;
  std::vector<ge::DataType> dtypes;
  std::vector<ge::Format> formats;
};

struct OpAttrDef {
  OpAttrDef& AttrType(Option) { return *this; }
  OpAttrDef& ListInt() { return *this; }
};

struct OpAICoreConfig {
  OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
  OpAICoreConfig& ExtendCfgInfo(const char* key, const char* value) { return extra[key] = value, *this; }
  std::map<std::string, std::string> extra;
};

struct OpAICoreDef {
  void AddConfig(const char* unit, OpAICoreConfig& config) { configs[unit] = config; }
  std::map<std::string, OpAICoreConfig> configs;
};

class OpDef {
 public:
  explicit OpDef(const char* name) : name(name) {}
  OpParamDef& Input(const char* of) { return add(&inputs, of); }
  OpParamDef& Output(const char* of) { return add(&outputs, of); }
  OpAttrDef& Attr(const char* of) {
    attributes.push_back(of);
    static OpAttrDef attribute;
    return attribute;
  }
  OpAICoreDef& AICore() { return core; }

  std::string name;
  std::deque<OpParamDef> inputs, outputs;
  std::vector<std::string> attributes;
  OpAICoreDef core;

 private:
  static OpParamDef& add(std::deque<OpParamDef>* params, const char* of) {
    params->push_back({of, REQUIRED, {}, {}});
    return params->back();
  }
};

inline std::vector<OpDef>& definitions() {
  static std::vector<OpDef> all;
  return all;
}

}  // namespace ops

#define OP_ADD(type) [[maybe_unused]] static const bool added_##type = (ops::definitions().push_back(type(#type)), true)

#endif  // MS_CONVTANH_TESTS_ASCEND_CANN_STAND_IN_H_
