#include "bindings/named_session.h"

#include <algorithm>

#include "bindings/python_frames.h"

namespace sam_rlx {
namespace {

// Objects that texts name get integers above those that users have chosen, up to this.
constexpr std::int64_t kMaxReserved = std::int64_t{1} << 62;

}  // namespace

NamedSession::NamedSession(std::unique_ptr<VideoSession> session, py::object frames)
    : NamedSession(std::move(session), std::move(frames), {}) {}

NamedSession::NamedSession(std::unique_ptr<VideoSession> session, py::object frames, Names names)
    : session_(std::move(session)), frames_(std::move(frames)), names_(std::move(names)) {
  session_->set_poll_interrupt(poll_python_signals);
  publish();
}

std::optional<std::int64_t> NamedSession::find(const py::object& name) const {
  for (const VideoTexts::Text& text : session_->texts().texts()) {
    for (const std::int64_t handle : text.tracker->obj_ids()) {
      if (py::int_(session_->texts().name_of(handle)).equal(name)) return handle;
    }
  }
  py::dict handles;
  for (const auto& object : session_->objects().objects()) {
    if (!object->is_masklet) handles[name_of(object->handle)] = object->handle;
  }
  if (!handles.contains(name)) return std::nullopt;
  return handles[name].cast<std::int64_t>();
}

std::int64_t NamedSession::find_or_add(const py::object& name, const std::string& label) {
  if (const auto known = find(name)) return *known;
  const std::int64_t handle = session_->next_handle();
  names_[handle] = name;
  session_->set_label(handle, label);
  return handle;
}

void NamedSession::reserve(const py::object& name) {
  const bool is_integer = py::isinstance<py::int_>(name) ||
                          py::isinstance(name, py::module_::import("numpy").attr("integer"));
  if (!is_integer) return;
  const py::int_ number(name);
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow < 0) return;
  session_->reserve_names(overflow > 0 ? kMaxReserved
                                       : std::min<std::int64_t>(value, kMaxReserved - 1) + 1);
}

NamedSession::Published NamedSession::published() const {
  const std::lock_guard lock(publishing_);
  return published_;
}

void NamedSession::publish() {
  Published now{.num_pushed = session_->num_pushed()};
  if (const auto& hw = session_->objects().orig_hw()) now.orig_hw = {hw->height, hw->width};
  for (const auto& object : session_->objects().objects()) {
    if (!object->is_masklet) now.obj_ids.append(name_of(object->handle));
  }
  for (const VideoTexts::Text& text : session_->texts().texts()) {
    for (const std::int64_t handle : text.tracker->obj_ids()) {
      now.obj_ids.append(session_->texts().name_of(handle));
    }
  }
  const std::lock_guard lock(publishing_);
  std::swap(published_, now);
}

NamedTensors NamedSession::save(const py::function& text_of) {
  return call([&](VideoSession& session) {
    NamedTensors saved;
    {
      const GilRelease release;
      saved = session.save();
    }
    py::list obj_ids;
    for (const auto& object : session.objects().objects()) obj_ids.append(name_of(object->handle));
    saved.metadata["names"] = py::str(text_of(obj_ids));
    return saved;
  });
}

void NamedSession::adopt(const NamedTensors& saved, const py::list& obj_ids,
                         const std::vector<std::string>& labels) {
  call([&](VideoSession& session) {
    const auto* const handles = saved.find<NamedTensors::Integers>("handles");
    const std::size_t count = handles == nullptr ? 0 : handles->size();
    if (obj_ids.size() != count || labels.size() != count) {
      fail<CheckpointError>("session.names", std::to_string(count) + " of objects",
                            std::to_string(obj_ids.size()));
    }
    session.adopt(saved);
    Names names;
    for (std::size_t i = 0; i < count; ++i) {
      names[(*handles)[i]] = obj_ids[i];
      session.set_label((*handles)[i], labels[i]);
    }
    names_ = std::move(names);
  });
}

std::unique_ptr<NamedSession> NamedSession::clone(const py::dict& memo) {
  return call([&](const VideoSession& session) {
    py::object frames = py::module_::import("copy").attr("deepcopy")(frames_, memo);
    return std::make_unique<NamedSession>(session.clone(frames_of(frames)), frames, names_);
  });
}

}  // namespace sam_rlx
