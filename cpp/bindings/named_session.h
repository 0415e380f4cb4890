#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/numpy.h"
#include "core/in_use.h"
#include "predictors/video/video_session.h"

namespace sam_rlx {

// A session with the names that users gave to its objects: any hashable values. One call at a time:
// names change in it too.
class NamedSession {
 public:
  // By number; some may be of objects that there are not: numbers are given anew only together with
  // a name.
  using Names = std::map<std::int64_t, py::object>;

  // frames: of the session, see PythonFrames.
  NamedSession(std::unique_ptr<VideoSession> session, py::object frames);
  NamedSession(std::unique_ptr<VideoSession> session, py::object frames, Names names);

  // Returns work(session). What has changed is published then, also if it fails.
  template <class Work>
  auto call(const Work& work) {
    const InUse guard(busy_, "VideoPredictor");
    try {
      if constexpr (std::is_void_v<decltype(work(*session_))>) {
        work(*session_);
        publish();
      } else {
        auto result = work(*session_);
        publish();
        return result;
      }
    } catch (...) {
      publish();
      throw;
    }
  }

  // ---- within a call
  // The number of an object that prompts show or that a text named. None: there is none.
  std::optional<std::int64_t> find(const py::object& name) const;
  // The same; a new one gets the next number. `label` is what errors call it.
  std::int64_t find_or_add(const py::object& name, const std::string& label);
  // No object that a text finds gets this name.
  void reserve(const py::object& name);
  const py::object& name_of(std::int64_t handle) const { return names_.at(handle); }

  // ---- what there was after the last call. Any thread may ask while another call runs.
  struct Published {
    std::int64_t num_pushed = 0;
    std::optional<std::pair<std::int64_t, std::int64_t>> orig_hw = {};
    py::list obj_ids = py::list();  // that prompts show, then those that texts name
  };
  Published published() const;
  // These never change.
  const VideoSession& constants() const { return *session_; }

  // ---- on disk
  // `text_of` makes the text "names" of the metadata from the list of the objects' names.
  NamedTensors save(const py::function& text_of);
  // Makes a new session what `save` gave, with objects of these names and labels, in its order. A
  // file that is damaged raises CheckpointError and changes nothing.
  void adopt(const NamedTensors& saved, const py::list& obj_ids,
             const std::vector<std::string>& labels);

  // Another session that goes on from here by itself, with a copy of the frames.
  std::unique_ptr<NamedSession> clone(const py::dict& memo);

 private:
  void publish();

  std::unique_ptr<VideoSession> session_;
  py::object frames_;
  Names names_;
  mutable std::mutex publishing_;
  Published published_;
  BusyFlag busy_;
};

}  // namespace sam_rlx
