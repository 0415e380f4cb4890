"""Interactive segmentation without a framework: sessions that talk to views by messages.

What people make is a project of values that never change (`values`) with one history over all that
changes, results of models too (`history`). Its files are a snapshot and a log (`records`, `store`),
which one process writes (`lock`); images are known by path and content (`identity`). `projects` has
those that are open. These modules know no model.

`image_session.ImageSession` and `video_session.VideoSession` own their predictors and show a
project; several may show one. They take part in no event loop. A host (a Jupyter comm, a WebSocket)
hands what a view sends to ``session.receive(head, buffers)`` from any thread, and is handed what is
for views by ``send(head, buffers, view)``, with None for all views. The other end is the module
``front/front.js``.

A message is a head, which JSON can hold, and a list of binary buffers. Positions (x, y) are in
pixels of the image, from its top left corner.

From a view: ``{type, view, seq, ...}``, where `view` is a text that the view chose, and `seq` its
counter: an edit that comes again is answered, and not done again. Objects are named by their
numbers. What a field may be stands in the table of gestures (`gestures`). What can change something
is never dropped and keeps its order; of hovers of a view that wait the newest wins.

Gestures are the rows of the table, with their fields: ``messages.md`` lists them. Besides them:

====== ============================================ ===========================================
type   fields                                       answer
====== ============================================ ===========================================
ready  again: no answer if there was one; edits:    image, project, state (all masks), layer,
       the view takes `edit` instead of `state`     lanes (video)
leave                                               none: forgets a hover; the view is there
bye                                                 none: the view is gone
hover  x, y, label (0, 1); video: frame             hover
stop   ends everything mode, or a tracking after    state
       its frame
====== ============================================ ===========================================

To views. `to` is the view that a message is for, or null; others ignore it. An answer has
`answer`, ``{view, seq}`` of what it answers. `deflated` has the indices of buffers that come as
zlib's streams.

======== =========================================================================================
image    kind (image, video), index, count, key, name, width, height, preview [w, h], grid [w, h]
         (of masks), step (pixels of the image for each of the grid), frames (video), texts (bool:
         the model finds texts), level (at which it is sent; tiles have the lower ones, down to 0);
         buffers[0]: JPEG or PNG bytes, none for a video
project  classes [{number, name, color, digit}], whole, items [{index, key, name, kind, state,
         reason, objects}]: all of them if `whole`, else those that have changed
state    revision, n (of the history), current (index or null), object (its number), since (n when
         it became that), class (of new objects), others_stay, can_undo, can_redo, undo, redo (what
         they do), read_only (why), elsewhere (the address where it can be written), unsaved (why),
         objects [{id, name, color, class, note, locked,
         points [[x, y, label]], point_numbers, boxes [[x0, y0, x1, y1]], box_numbers, candidate,
         candidates, score, how, text, gone, mask}]; in a video points and boxes end with their
         frame, and `mask` is null; answers [{mask, score, step}] of the current object, whose masks
         may have a coarser grid (step: pixels of the image for each of its); masks (mask heads,
         their bits in the buffers): those whose id a view does not know yet
edit     as state, with the objects that have changed alone, and the numbers of those that went:
         gone
tiles    key, level, tile, tiles [[column, row]], box, masks [{object, ...mask head}]; buffers: an
         image for each tile, then the bits of each mask in the box, at that level
hover    mask (a mask head), score, frame (video); buffers[0] its bits
layer    count, size [w, h]; buffers[0]: uint16 labels, 0 for none; count 0: no layer
status   text, for example "encoding"; "" when idle; part 0 to 1 or null
progress done, total (video), running
frame    frame, masks [{object, ...mask head}]; buffers: JPEG bytes, then the bits of each mask
masks    frame, masks: as frame, without the image, to all views: what has changed there
lanes    lanes [{object, frames [[frame, letter]], gone}] (video): t tracked, p of a prompt, h by
         hand, c checked
checks   rows [{object, frame, reason, text}] (video): what to look at, the worst first
file     name, mime; buffers[0]: the contents
loaded   objects (how many), absent (names of the file's images that are not open), passed_over
         (how many annotations have no mask)
error    text
note     text: what a person should know; about (text, everything, changed), threshold, best
======== =========================================================================================

A mask head is ``{id, size [w, h], box [x0, y0, x1, y1]}``: in a grid of `size` over the whole image
the box (its end excluded) has the bits of its buffer, a row after the other, each padded to a byte,
the highest bit first, as ``numpy.packbits(mask, axis=1)``. Where a head has ``runs: true`` the
buffer says how many of these bits are 0, then how many are 1, then 0 again, and so on: each number
in groups of 7 bits, the lowest first, a byte each, whose highest bit says that more follow.
"""
