#include "aclnn/src/tuning.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <vector>

#include "kernels/cpu/registry.h"

namespace msct {
namespace {

constexpr char kFormat[] = "1";
// Beyond every cache, and far below what could overflow a plan's sizes.
constexpr int64_t kLargest = int64_t{1} << 24;

std::string trimmed(const std::string& text, const char* also = "") {
  const std::string space = std::string(" \t\r") + also;
  const size_t first = text.find_first_not_of(space);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(space) - first + 1);
}

// "name: value" in its two parts; false without a colon.
bool split(const std::string& text, std::string* name, std::string* value) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  *name = trimmed(text.substr(0, colon));
  *value = trimmed(text.substr(colon + 1), "\"'");
  return true;
}

// The parts of "a, [b, c], d".
std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool parse_number(const std::string& text, int64_t* number) {
  const std::string word = trimmed(text);
  const auto result = std::from_chars(word.data(), word.data() + word.size(), *number);
  return result.ec == std::errc() && result.ptr == word.data() + word.size();
}

// "[1, 2]", or "1" for one number.
bool parse_numbers(const std::string& text, int64_t* numbers, size_t count) {
  const std::vector<std::string> parts = list_of(count == 1 ? text : trimmed(text, "[]"));
  if (parts.size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!parse_number(parts[i], &numbers[i])) return false;
  }
  return true;
}

bool parse_dtype(const std::string& text, int64_t* dtype) {
  const char* const names[] = {"float32", "float16", "bfloat16"};  // in the order of DType
  const auto found = std::find(std::begin(names), std::end(names), text);
  *dtype = found - std::begin(names);
  return found != std::end(names);
}

bool parse_fusion(const std::string& text, Fusion* fusion) {
  *fusion = text == "half" ? Fusion::kHalf : Fusion::kTrue;
  return text == "half" || text == "true";
}

std::string read_cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, name, value, implementer;
  while (std::getline(file, line)) {
    if (!split(line, &name, &value)) continue;
    if (name == "model name") return value;
    if (name == "CPU implementer") implementer = value;
    if (name == "CPU part") return "CPU " + implementer + " " + value;  // aarch64 has no names
  }
  return "unknown";
}

}  // namespace

const std::string& cpu_model() {
  static const auto* model = new std::string(read_cpu_model());
  return *model;
}

TuningTable::Shape TuningTable::shape_of(const ConvTanhProblem& p) {
  return {static_cast<int64_t>(p.dtype),
          p.n,
          p.ci,
          p.hi,
          p.wi,
          p.co,
          p.groups > 0 ? p.ci / p.groups : 0,
          p.kh,
          p.kw,
          p.stride_h,
          p.stride_w,
          p.pad_top,
          p.pad_bottom,
          p.pad_left,
          p.pad_right,
          p.dilation_h,
          p.dilation_w,
          p.groups};
}

// What is wrong with the line, "" if nothing is.
std::string TuningTable::parse_entry(const std::string& line, Key* key, Entry* entry) {
  const std::string inner = trimmed(line.substr(1));
  if (inner.size() < 2 || inner.front() != '{' || inner.back() != '}') return "an entry must be {name: value, ...}";
  int64_t* const shape = key->second.data();
  // Where the numbers of a name go, and how many there are.
  struct Numbers {
    const char* name;
    int64_t* to;
    size_t count;
    bool needed;
  };
  Tuning& tuning = entry->tuning;
  const Numbers all[] = {{"x", shape + 1, 4, true},
                         {"filter", shape + 5, 4, true},
                         {"strides", shape + 9, 2, true},
                         {"pads", shape + 11, 4, true},
                         {"dilations", shape + 15, 2, true},
                         {"groups", shape + 17, 1, true},
                         {"threads", &entry->threads, 1, false},
                         {"block_channels", &tuning.block_channels, 1, false},
                         {"tile_elements", &tuning.tile_elements, 1, false},
                         {"packed_elements", &tuning.packed_elements, 1, false},
                         {"blocks_per_thread", &tuning.blocks_per_thread, 1, false}};
  size_t needed = 0;  // of those that must be there
  for (const std::string& part : list_of(inner.substr(1, inner.size() - 2))) {
    std::string name, value;
    if (!split(part, &name, &value)) return "an entry must be {name: value, ...}";
    const auto numbers =
        std::find_if(std::begin(all), std::end(all), [&](const Numbers& one) { return name == one.name; });
    if (numbers != std::end(all)) {
      if (!parse_numbers(value, numbers->to, numbers->count)) return name + " must be whole numbers, got " + value;
      if (!numbers->needed && (*numbers->to < 1 || *numbers->to > kLargest)) {
        return name + " must be from 1 to " + std::to_string(kLargest) + ", got " + value;
      }
      needed += numbers->needed;
    } else if (name == "isa") {
      key->first = value;
      ++needed;
    } else if (name == "dtype") {
      if (!parse_dtype(value, &shape[0])) return "dtype must be float32, float16 or bfloat16, got " + value;
      ++needed;
    } else if (name == "fusion") {
      if (!parse_fusion(value, &entry->fusion)) return "fusion must be half or true, got " + value;
    } else if (name != "gain") {
      return "unknown name " + name;
    }
  }
  return needed == 8 ? "" : "isa, dtype, x, filter, strides, pads, dilations and groups must be there, once each";
}

std::shared_ptr<const TuningTable> TuningTable::read(const std::string& path, std::string* reason) {
  std::ifstream file(path);
  if (!file) {
    *reason = "it cannot be read";
    return nullptr;
  }
  auto table = std::make_shared<TuningTable>();
  std::map<std::string, std::string> header;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = trimmed(line);
    if (line.empty() || line[0] == '#') continue;
    std::string name, value;
    std::string wrong;
    if (line[0] == '-') {
      Key key;
      Entry entry;
      wrong = parse_entry(line, &key, &entry);
      table->entries_[key] = entry;
    } else if (!split(line, &name, &value)) {
      wrong = "a line must be name: value";
    } else if (name == "format" || name == "library" || name == "cpu" || name == "entries") {
      header[name] = value;
    } else {
      wrong = "unknown name " + name;
    }
    if (!wrong.empty()) {
      *reason = "line " + std::to_string(number) + ": " + wrong;
      return nullptr;
    }
  }
  if (!file.eof()) {
    *reason = "it cannot be read";
    return nullptr;
  }
  const std::pair<const char*, std::string> expected[] = {
      {"format", kFormat}, {"library", MSCT_VERSION}, {"cpu", cpu_model()}};
  for (const auto& [name, value] : expected) {
    if (header[name] == value) continue;
    *reason = std::string(name) + " must be " + value + ", got \"" + header[name] + "\"; tune anew";
    return nullptr;
  }
  return table;
}

void TuningTable::apply(const ConvTanhProblem& problem, DispatchOptions* options) const {
  const auto found = entries_.find({best_variant(k1_variants(), options->features)->name, shape_of(problem)});
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  if (options->fusion == Fusion::kAuto) options->fusion = entry.fusion;
  if (entry.threads > 0) options->threads = std::min(options->threads, entry.threads);
  options->tuning = entry.tuning;
}

}  // namespace msct
