#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Files that are no safetensors, GGUF or PyTorch file: what they are, and what makes a file of them
// that loads. All raise; none reads more than the beginning of a file and the names in an archive.

namespace sam_rlx {

// Whether the names in a zip archive are those of a PyTorch file. One that is damaged before its
// names counts as such.
bool is_torch_zip(std::span<const std::string> names);

[[noreturn]] void refuse_zip(std::span<const std::string> names, const std::string& where);

// A file of another kind than those that are read, by how it begins.
[[noreturn]] void refuse_content(std::string_view text, const std::string& where);

// Refuses one of several parts that a file was cut into ("x.pth.001"), where another lies beside
// it.
void refuse_part(const std::filesystem::path& path);

// Refuses a folder that is a model of another program, by the names in it.
void refuse_folder(const std::filesystem::path& folder);

}  // namespace sam_rlx
