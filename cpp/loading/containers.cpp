#include "loading/containers.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "checkpoint/mapped_file.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view kReadable = "a safetensors, GGUF or PyTorch file";
constexpr std::string_view kOriginal = "load the PyTorch checkpoint that it was made from";
constexpr std::string_view kGgml = "load the PyTorch checkpoint, or GGUF of `sam-rlx convert`";
constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kCheckpointEnds[] = {".safetensors", ".pth",  ".pt",  ".ckpt",
                                                ".bin",         ".gguf", ".ggml"};

[[noreturn]] void refuse_container(const std::string& where, std::string_view name,
                                   std::string_view help) {
  fail<UnsupportedError>(where, std::string(kReadable),
                         std::string(name).append(": ").append(help));
}

bool is_checkpoint_name(std::string_view name) {
  for (const std::string_view end : kCheckpointEnds) {
    if (name.size() > end.size() && name.ends_with(end)) return true;
  }
  return false;
}

// ---------------------------------------------------------------- zip archives

// By the names of entries, the first that fits: one that ends so, or all of them.
struct ZipKind {
  std::string_view end;
  bool all;
  std::string_view name, help;
};

constexpr ZipKind kZipKinds[] = {
    {".npy", true, "NumPy's arrays (.npz)",
     "write them as safetensors: safetensors.numpy.save_file({name: "
     "numpy.ascontiguousarray(array) for name, array in numpy.load(FILE).items()}, OUTPUT)"},
    {"model.weights.h5", false, "a Keras model", kOriginal},
    {"/archive_format", false, "an exported program (torch.export)",
     "save its weights with PyTorch: torch.save(torch.export.load(FILE).state_dict, OUTPUT)"},
    {"serialized_exported_program.json", false, "an exported program (torch.export)",
     "save its weights with the PyTorch that wrote it: "
     "torch.save(torch.export.load(FILE).state_dict, OUTPUT)"},
    {"com.apple.CoreML/model.mlmodel", false, "a Core ML package", kOriginal},
    {".data/extern_modules", false, "a package of torch.package",
     "save its weights where its code is installed, if you trust the file: "
     "torch.package.PackageImporter(FILE).load_pickle(PACKAGE, RESOURCE)"},
    {"saved_model.pb", false, "a TensorFlow model", kOriginal},
    {"AndroidManifest.xml", false, "an Android program", kOriginal},
};

// What a list of names shows of a checkpoint inside.
std::string inner_checkpoint(std::span<const std::string> names) {
  const auto found = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return is_checkpoint_name(name) || name.ends_with("/data.pkl");
  });
  return found == names.end() ? std::string() : *found;
}

// ---------------------------------------------------------------- tar archives

constexpr std::size_t kTarBlock = 512;

// Names in a tar archive, the first 1000.
std::vector<std::string> tar_names(std::string_view text) {
  constexpr std::size_t kMaxNames = 1000, kName = 100, kSizeAt = 124, kSizeDigits = 11;
  std::vector<std::string> names;
  for (std::size_t at = 0; at + kTarBlock <= text.size() && names.size() < kMaxNames;) {
    const std::string_view name = text.substr(at, kName);
    if (name[0] == '\0') break;
    names.emplace_back(name.substr(0, name.find('\0')));
    std::size_t size = 0;
    for (const char digit : text.substr(at + kSizeAt, kSizeDigits)) {
      if (digit < '0' || digit > '7') return names;  // too large for octal digits
      size = 8 * size + static_cast<std::size_t>(digit - '0');
    }
    at += kTarBlock + (size + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  return names;
}

[[noreturn]] void refuse_tar(std::string_view text, const std::string& where) {
  const std::vector<std::string> names = tar_names(text);
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("storages") && has("tensors")) {
    refuse_container(where, "a PyTorch file from before 0.4",
                     "save it again with a current PyTorch");
  }
  const std::string inside = inner_checkpoint(names);
  refuse_container(where, "a tar file" + (inside.empty() ? "" : " around " + printable(inside)),
                   kUnpack);
}

// ---------------------------------------------------------------- other beginnings

struct Kind {
  std::size_t at;
  std::string_view begin, name, help;
};

constexpr Kind kKinds[] = {
    {0, "\x93NUMPY"sv, "one array of NumPy (.npy)", kOriginal},
    {0, "lmgg"sv, "a ggml file of another program", kGgml},
    {0, "tjgg"sv, "a ggjt file of another program", kGgml},
    {0, "fmgg"sv, "a ggmf file of another program", kGgml},
    {0, "algg"sv, "a LoRA adapter of llama.cpp", kGgml},
    {4, "TFL3"sv, "a TensorFlow Lite model", kOriginal},
    {4, "ET12"sv, "an ExecuTorch program (.pte)", kOriginal},
    {4, "ET13"sv, "an ExecuTorch program (.pte)", kOriginal},
    {0, "\x89HDF"sv, "an HDF5 file (Keras .h5?)", kOriginal},
    {0, "<?xml"sv, "an XML file (OpenVINO?)", kOriginal},
    {0, "ftrt"sv, "a TensorRT engine", kOriginal},
    {0, "RKNN"sv, "an RKNN model", kOriginal},
    {0, "7767517\n"sv, "an ncnn model", kOriginal},
    {0, "\x1f\x8b"sv, "a gzip file", kUnpack},
    {0, "BZh"sv, "a bzip2 file", kUnpack},
    {0,
     "\xfd"
     "7zXZ"sv,
     "an xz file", kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd file", kUnpack},
    {0, "\x04\x22\x4d\x18"sv, "an LZ4 file", kUnpack},
    {0, "7z\xbc\xaf"sv, "a 7-Zip file", kUnpack},
    {0, "Rar!"sv, "a RAR file", kUnpack},
    {0, "\x89PNG"sv, "an image (PNG)", "the model is another argument"},
    {0, "\xff\xd8\xff"sv, "an image (JPEG)", "the model is another argument"},
};

// Protocol buffers: field 1, the version of the format; then field 2, the producer, or field 7, the
// graph.
bool is_onnx(std::string_view text) {
  return text.size() > 3 && text[0] == '\x08' && text[1] > 0 && text[1] < 32 &&
         (text[2] == '\x12' || text[2] == '\x3a');
}

// ---------------------------------------------------------------- parts and folders

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The name of the part before or after: its last digits, or letters of `split`, count.
std::string neighbour(const std::string& suffix, int step) {
  std::string name = suffix;
  for (auto at = name.rbegin(); at != name.rend(); ++at) {
    const bool digit = is_digit(*at);
    if (!digit && (*at < 'a' || *at > 'z')) return {};
    const char first = digit ? '0' : 'a', last = digit ? '9' : 'z', edge = step > 0 ? last : first;
    if (*at != edge) {
      *at = static_cast<char>(*at + step);
      return name;
    }
    *at = step > 0 ? first : last;
  }
  return {};
}

// ".001", ".part2" or ".partaa", ".aa": where the counted characters begin, 0 for other suffixes.
std::size_t count_begin(std::string_view suffix) {
  constexpr std::string_view kPart = ".part";
  std::size_t begin = 1;
  if (suffix.size() > kPart.size() && suffix.starts_with(kPart)) begin = kPart.size();
  const std::string_view rest = suffix.substr(std::min(begin, suffix.size()));
  const bool digits = !rest.empty() && std::all_of(rest.begin(), rest.end(), is_digit);
  const bool letters =
      rest.size() == 2 && rest != "pt" &&
      std::all_of(rest.begin(), rest.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  return digits || letters ? begin : 0;
}

struct FolderKind {
  std::string_view file, name, help;
};

constexpr FolderKind kFolderKinds[] = {
    {"saved_model.pb", "a TensorFlow model", kOriginal},
    {"Data/com.apple.CoreML", "a Core ML package", kOriginal},
    {"model.mil", "a compiled Core ML model", kOriginal},
    {"_CHECKPOINT_METADATA", "a checkpoint of Orbax (JAX)", kOriginal},
    {"manifest.ocdbt", "a checkpoint of Orbax (JAX)", kOriginal},
    {"zarr.json", "a Zarr store", kOriginal},
    {"data.pkl", "an unpacked PyTorch file", "pack it again: zip -0 -r FILE.pth FOLDER"},
};

}  // namespace

bool is_torch_zip(std::span<const std::string> names) {
  return names.empty() || std::any_of(names.begin(), names.end(), [](const std::string& name) {
           return name.ends_with("/data.pkl");
         });
}

void refuse_zip(std::span<const std::string> names, const std::string& where) {
  for (const ZipKind& kind : kZipKinds) {
    const auto fits = [&](const std::string& name) { return name.ends_with(kind.end); };
    if (kind.all ? std::all_of(names.begin(), names.end(), fits)
                 : std::any_of(names.begin(), names.end(), fits)) {
      refuse_container(where, kind.name, kind.help);
    }
  }
  const std::string inside = inner_checkpoint(names);
  if (!inside.empty()) refuse_container(where, "a zip file around " + printable(inside), kUnpack);
  fail<CheckpointError>(where, "a PyTorch archive with data.pkl",
                        "a zip file without, of " + std::to_string(names.size()) +
                            " entries, such as " + printable(names.front()));
}

void refuse_content(std::string_view text, const std::string& where) {
  std::string found = quoted(text.substr(0, 16)) + " at its beginning";
  if (text.empty()) found = "an empty file";
  if (text.size() >= kTarBlock && text.substr(257, 5) == "ustar") refuse_tar(text, where);
  if (text.starts_with("version https://git-lfs")) found = "a Git LFS pointer, not the file itself";
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<html")) {
    found += ", a web page, not the file itself";
  }
  for (const Kind& kind : kKinds) {
    if (text.size() > kind.at && text.substr(kind.at).starts_with(kind.begin)) {
      refuse_container(where, kind.name, kind.help);
    }
  }
  if (is_onnx(text)) refuse_container(where, "an ONNX model", kOriginal);
  fail<CheckpointError>(where, std::string(kReadable), found);
}

void refuse_part(const fs::path& path) {
  const std::string suffix = utf8_of(path.extension());
  const std::size_t begin = count_begin(suffix);
  if (begin == 0) return;
  for (const int step : {1, -1}) {
    const std::string other = neighbour(suffix.substr(begin), step);
    if (other.empty()) continue;
    fs::path beside = path;
    beside.replace_extension(path_of(suffix.substr(0, begin) + other));
    if (!fs::is_regular_file(beside)) continue;
    const std::string whole = utf8_of(path.stem()), parts = whole + suffix.substr(0, begin);
    fail<UnsupportedError>(printable(utf8_of(path)), "a whole file",
                           "one of the parts that it was cut into (" +
                               printable(utf8_of(beside.filename())) +
                               " lies beside it): put them together first: cat " +
                               printable(parts) + "* > " + printable(whole));
  }
}

void refuse_folder(const fs::path& folder) {
  for (const FolderKind& kind : kFolderKinds) {
    if (fs::exists(folder / path_of(std::string(kind.file)))) {
      refuse_container(printable(utf8_of(folder)), kind.name, kind.help);
    }
  }
}

}  // namespace sam_rlx
