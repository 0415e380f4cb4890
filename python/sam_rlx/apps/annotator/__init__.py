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

========== ============================================ ========================================
type       fields                                       answer
========== ============================================ ========================================
ready      again: no answer if there was one            image, state (all masks), layer
leave                                                   none: forgets a hover; the view is there
bye                                                     none: the view is gone
hover      x, y, label (0, 1); video: frame             hover
click      x, y, label; video: frame                    state
box        box [x0, y0, x1, y1]; video: frame           state
undo redo                                               state
delete     object or null: the current one              state
commit     the next click begins a new object           state
cancel     the current object as it was before          state
select     object or null                               state
candidate  index (0 to 2): another answer to a click    state
rename     object, name                                 state
recolor    object, color [r, g, b]                      state
text       text, threshold, boxes, box_labels;          state
           video: frame, text, threshold
take_over  the project is written here from now on      state
everything on (bool)                                    layer, state
pick       x, y: an object of the layer                 state
image      index: of the queue                          image, state
export     format (coco png labels npz polygons)        file
load       name; buffers[0]: a file of an export        state, loaded
frame      frame (video only)                           frame
propagate  frame or null, reverse (video only)          progress, masks, state
stop       ends a propagation after its frame (video)   state
========== ============================================ ========================================

To views. `to` is the view that a message is for, or null; others ignore it. An answer has
`answer`, ``{view, seq}`` of what it answers.

======== =========================================================================================
image    kind (image, video), index, count, key, name, width, height, preview [w, h], grid [w, h]
         (of masks), step (pixels of the image for each of the grid), frames (video), texts (bool:
         the model finds texts); buffers[0]: JPEG or PNG bytes, none for a video
state    revision, n (of the history), current (index or null), can_undo, can_redo, undo, redo
         (what they do), read_only (why), unsaved (why), objects [{id, name, color, points [[x, y,
         label]], boxes [[x0, y0, x1, y1]], candidate, candidates, score, text, mask}]; in a
         video points and boxes end with their frame, and `mask` is null; masks (mask heads, their
         bits in the buffers): those whose id a view does not know yet
hover    mask (a mask head), score, frame (video); buffers[0] its bits
layer    count, size [w, h]; buffers[0]: zlib of uint16 labels, 0 for none; count 0: no layer
status   text, for example "encoding"; "" when idle; part 0 to 1 or null
progress done, total (video), running
frame    frame, masks [{object, ...mask head}]; buffers: JPEG bytes, then the bits of each mask
masks    frame, masks: as frame, without the image, to all views: what has changed there
file     name, mime; buffers[0]: the contents
loaded   objects (how many), absent (names of the file's images that are not open), passed_over
         (how many annotations have no mask)
error    text
note     text: what a person should know
======== =========================================================================================

A mask head is ``{id, size [w, h], box [x0, y0, x1, y1]}``: in a grid of `size` over the whole image
the box (its end excluded) has the bits of its buffer, a row after the other, each padded to a byte,
the highest bit first, as ``numpy.packbits(mask, axis=1)``.
"""
