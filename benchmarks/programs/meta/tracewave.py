"""tracewave: a clip in chunks, whose seeds are masks of the chunk before."""

import chunks

chunks.run("tracewave")
