// Runs the CANN operator project on what stands in for CANN. By the first argument:
//   define   prints each kernel operator: its name, kernel file, inputs, outputs, attributes and dtypes
//   infer    reads shapes and attributes of FusedConvTanh, prints the shape of y
//   call     reads the number of cores and the arguments of one aclnn call, prints its status and message, or the
//            launches with their block_dim, TilingKey and TilingData
// Input is whitespace-separated: an array as its length and values, -1 for null; a tensor as its rank (-1 for null),
// shape, strides, offset, storage size, dtype and format.
#include <iostream>

#include "aclnnop/aclnn_fused_conv_tanh.h"
#include "cann_stand_in.h"

namespace {

using Ints = std::vector<int64_t>;

int64_t read() {
  int64_t value = 0;
  std::cin >> value;
  return value;
}

Ints read_values(int64_t count) {
  Ints values;
  for (int64_t i = 0; i < count; ++i) values.push_back(read());
  return values;
}

aclIntArray* read_array() {
  const int64_t count = read();
  return count < 0 ? nullptr : new aclIntArray{read_values(count)};
}

aclTensor* read_tensor(const char* name) {
  const int64_t rank = read();
  if (rank < 0) return nullptr;
  auto* tensor = new aclTensor{};
  tensor->name = name;
  tensor->shape.sizes = read_values(rank);
  tensor->strides = read_values(rank);
  tensor->offset = read();
  tensor->storage = {read()};
  tensor->dtype = static_cast<aclDataType>(read());
  tensor->format = static_cast<aclFormat>(read());
  return tensor;
}

void print(const char* word, const Ints& values) {
  std::cout << ' ' << word;
  for (const int64_t value : values) std::cout << ' ' << value;
}

void print(const char* word, const std::vector<const aclTensor*>& tensors) {
  std::cout << ' ' << word;
  for (const aclTensor* tensor : tensors) {
    if (tensor == nullptr) {
      std::cout << " -";
    } else {
      std::cout << ' ' << tensor->name << ':' << tensor->dtype << ':' << stand_in::product(tensor->shape.sizes);
    }
  }
}

void print(const char* word, const std::deque<ops::OpParamDef>& params) {
  std::cout << ' ' << word;
  for (const ops::OpParamDef& param : params) {
    std::cout << ' ' << param.name << (param.presence == ops::OPTIONAL ? "?" : "");
    for (const ge::DataType dtype : param.dtypes) std::cout << ':' << dtype;
  }
}

int define() {
  for (const ops::OpDef& definition : ops::definitions()) {
    std::cout << definition.name << " kernel " << definition.core.configs.at("ascend950").extra.at("opFile.value");
    print("inputs", definition.inputs);
    print("outputs", definition.outputs);
    std::cout << " attributes";
    for (const std::string& attribute : definition.attributes) std::cout << ' ' << attribute;
    std::cout << '\n';
  }
  return 0;
}

int infer() {
  gert::InferShapeContext context;
  for (int i = 0; i < 2; ++i) {
    context.inputs.emplace_back();
    context.inputs.back().sizes = read_values(read());
  }
  for (int i = 0; i < 3; ++i) context.attributes.lists.push_back({read_values(read())});
  if (stand_in::implementations().at("FusedConvTanh").infer_shape(&context) != ge::GRAPH_SUCCESS) {
    std::cout << "failed " << stand_in::last_message << '\n';
    return 0;
  }
  print("y", context.output.sizes);
  return 0;
}

// False if the operator's tiling fails.
bool print_tiling(const stand_in::Launch& launch, uint32_t cores) {
  const stand_in::Implementation& implementation = stand_in::implementations().at(launch.name);
  fe::PlatFormInfos platform = {cores};
  gert::TilingContext context;
  context.attributes.lists = {{launch.attribute}};
  context.platform = &platform;
  if (implementation.tiling(&context) != ge::GRAPH_SUCCESS || context.workspace != 0 ||
      context.data.size() * sizeof(int64_t) != implementation.tiling_bytes) {
    return false;
  }
  print("blocks", Ints{context.blocks});
  print("key", Ints{static_cast<int64_t>(context.key)});
  print("data", context.data);
  return true;
}

int call() {
  const auto cores = static_cast<uint32_t>(read());
  aclTensor* x = read_tensor("x");
  aclTensor* filter = read_tensor("filter");
  aclTensor* bias = read_tensor("bias");
  aclIntArray* strides = read_array();
  aclIntArray* pads = read_array();
  aclIntArray* dilations = read_array();
  const int64_t groups = read(), cube_math_type = read();
  aclTensor* y = read_tensor("y");
  uint64_t workspace = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus status = aclnnFusedConvTanhGetWorkspaceSize(x, filter, bias, strides, pads, dilations, groups,
                                                                cube_math_type, y, &workspace, &executor);
  if (status != ACLNN_SUCCESS) {
    std::cout << "status " << status << ' ' << stand_in::last_message << '\n';
    return 0;
  }
  std::cout << "workspace " << workspace << '\n';
  for (const stand_in::Launch& launch : executor->launches) {
    std::cout << launch.name;
    print("inputs", launch.inputs);
    print("outputs", launch.outputs);
    if (!launch.attribute.empty() && !print_tiling(launch, cores)) return 3;
    std::cout << '\n';
  }
  return aclnnFusedConvTanh(nullptr, workspace, executor, nullptr);
}

aclnnStatus give(const Ints& values, int64_t** array, uint64_t* count) {
  *array = new int64_t[values.size()];
  std::copy(values.begin(), values.end(), *array);
  *count = values.size();
  return ACLNN_SUCCESS;
}

}  // namespace

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** dims, uint64_t* count) {
  return give(tensor->shape.sizes, dims, count);
}
aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** dims, uint64_t* count) {
  return give(tensor->storage, dims, count);
}
aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** strides, uint64_t* count) {
  return give(tensor->strides, strides, count);
}
aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) { return *offset = tensor->offset, 0; }
aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) { return *format = tensor->format, 0; }
aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dtype) { return *dtype = tensor->dtype, 0; }

int main(int count, char** arguments) {
  const std::string_view mode = count == 2 ? arguments[1] : "";
  return mode == "define" ? define() : mode == "infer" ? infer() : mode == "call" ? call() : 2;
}
