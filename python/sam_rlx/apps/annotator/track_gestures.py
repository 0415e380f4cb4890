"""Gestures on the tracks of a clip: gone, right, split, taken away, and what to check."""

from dataclasses import replace

from sam_rlx.apps.annotator.checks import Finding, to_check
from sam_rlx.apps.annotator.export_gestures import ExportGestures
from sam_rlx.apps.annotator.gestures import Frame, OptionalFrame, OptionalNumber, gesture
from sam_rlx.apps.annotator.session import Answer
from sam_rlx.apps.annotator.tracks import HELD, asked_anew
from sam_rlx.apps.annotator.values import Document, Gone, Object, PackedMask, Prompt, Start
from sam_rlx.errors import InvalidArgumentError


class TrackGestures(ExportGestures):
    """The objects of a clip, and what a person says of their masks."""

    count: int  # of frames

    @property
    def tracks(self) -> tuple[Object, ...]:
        """The objects."""
        return self.document.objects

    def masks(self, frame: int) -> dict[int, PackedMask]:
        """Return the masks that are known on a frame, by number of the object."""
        return {o.number: o.masks[frame].packed for o in self.tracks if frame in o.masks}

    def known_frames(self) -> list[int]:
        """Return the numbers of the frames with masks."""
        return sorted({frame for one in self.tracks for frame in one.masks})

    def _put(self, title: str, *objects: Object) -> None:
        """Change objects that are there, and note where their prompts changed."""
        known = {one.number: one for one in self.tracks}
        super()._put(title, *(asked_anew(known.get(one.number, one), one) for one in objects))

    def _check_frame(self, frame: int) -> None:
        if frame >= self.count:
            raise InvalidArgumentError(f"frame: expected 0 to {self.count - 1}, found {frame}")

    def _send_masks(self, frame: int) -> None:
        """Send views the masks of a frame."""
        raise NotImplementedError

    @gesture("gone from here on")
    def do_gone(self, frame: Frame, object: OptionalNumber = None) -> None:
        """Say that an object is out of sight from a frame on, until a later prompt of it."""
        one = self._free(object)
        self._check_frame(frame)
        gone = replace(one, prompts=(*one.prompts, Gone(one.next_prompt, frame)))
        masks = {at: mask for at, mask in one.masks.items() if not is_gone(gone, at)}
        self._change_masks(f"{one.name} is gone from frame {frame} on", replace(gone, masks=masks))

    @gesture("right", key="Y")
    def do_right(
        self, frame: Frame, to: OptionalFrame = None, object: OptionalNumber = None
    ) -> None:
        """Say that masks are right, on a frame or up to another one: tracking leaves them alone."""
        one = self._object(object)
        first, last = self._range(frame, to)
        masks = {
            at: replace(mask, how="checked")
            if first <= at <= last and mask.how not in HELD
            else mask
            for at, mask in one.masks.items()
        }
        self._change_masks(f"{one.name} is right", replace(one, masks=masks))
        self._send_checks(None, None)

    @gesture("split the track")
    def do_split_track(self, frame: Frame, object: OptionalNumber = None) -> None:
        """Make what an object is from a frame on another object."""
        one = self._free(object)
        self._check_frame(frame)
        later = {at: mask for at, mask in one.masks.items() if at >= frame}
        earlier = {at: mask for at, mask in one.masks.items() if at < frame}
        if not later or not earlier:
            raise InvalidArgumentError(
                f"frame: expected masks of {one.name} before {frame} and from it on, found none"
            )
        begin = min(later)
        prompts: tuple[Prompt, ...] = (Start(1, begin, later[begin].packed),)
        prompts += tuple(
            replace(each, number=at + 2)
            for at, each in enumerate(each for each in one.prompts if each.frame > begin)
        )
        other = replace(
            self.new_object(prompts=prompts, masks=later),
            class_number=one.class_number,
            asked=one.asked,
        )
        rest = replace(
            one, prompts=tuple(each for each in one.prompts if each.frame < frame), masks=earlier
        )

        def change(document: Document) -> Document:
            document = document.with_objects(rest)
            return document.with_objects(*self._numbered(document, [other]))

        self._edit(f"split {one.name} at frame {frame}", change)
        for at in sorted(later):
            self._send_masks(at)
        self.broadcast(self._asks[1])

    @gesture("take masks away")
    def do_remove_masks(
        self, frame: Frame, to: OptionalFrame = None, object: OptionalNumber = None
    ) -> None:
        """Take masks and prompts of an object away, on a frame or up to another one."""
        one = self._free(object)
        first, last = self._range(frame, to)
        masks = {at: mask for at, mask in one.masks.items() if not first <= at <= last}
        prompts = tuple(each for each in one.prompts if not first <= each.frame <= last)
        changed = replace(one, masks=masks, prompts=prompts)
        self._change_masks(f"take masks of {one.name} away", changed)

    def _range(self, frame: int, to: int | None) -> tuple[int, int]:
        self._check_frame(frame)
        last = frame if to is None else to
        self._check_frame(last)
        return min(frame, last), max(frame, last)

    def _change_masks(self, title: str, one: Object) -> None:
        """Put an object with other masks, and tell views of them."""
        before = self.document.get(one.number)
        self._put(title, one)
        known = {} if before is None else before.masks
        changed = [at for at in {*known, *one.masks} if known.get(at) is not one.masks.get(at)]
        for at in sorted(changed):
            self._send_masks(at)
        self.broadcast(self._asks[1])

    def checks(self) -> list[Finding]:
        """Return what a person should look at, the worst first."""
        return to_check(self.tracks)

    @gesture("what to check", key="N", edits=False)
    def do_check(self) -> list[Finding]:
        """Tell a view what should be looked at, with a reason each."""
        return self._send_checks(*self._asks)

    def _send_checks(self, view: str | None, answer: Answer) -> list[Finding]:
        found = self.checks()
        rows = [
            {"object": o.object, "frame": o.frame, "reason": o.reason, "text": o.text}
            for o in found
        ]
        self.send({"type": "checks", "rows": rows, "answer": answer}, [], view)
        return found


def is_gone(one: Object, frame: int) -> bool:
    """Tell whether the last that a person said of an object up to a frame is that it is gone."""
    said = [each for each in one.prompts if each.frame <= frame]
    last = max(said, key=lambda each: (each.frame, each.number), default=None)
    return isinstance(last, Gone)
