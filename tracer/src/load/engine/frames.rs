//! A walker over the server's reply frames that looks into none but the few that matter.
//!
//! It accepts the byte stream in any chunks, skips payloads without copying them, and allocates
//! only when a frame that must be read whole is split between two chunks.

/// Largest error or status message that is kept.
const CAPTURE_MAX_BYTES: usize = 1 << 20;
/// Largest row whose values are wanted.
const ROW_MAX_BYTES: usize = 64 << 20;
const HEADER_BYTES: usize = 5;

/// A frame that the load generator has to act on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// ReadyForQuery with the transaction status: `I`, `T` or `E`.
    Ready(u8),
    /// ErrorResponse, with its payload.
    Error(&'a [u8]),
    /// The server started a COPY, which a benchmark script cannot serve.
    Copy,
    /// ParseComplete: a statement is prepared.
    Parsed,
    /// RowDescription with its payload, where rows are wanted.
    Columns(&'a [u8]),
    /// DataRow with its payload, where rows are wanted.
    Row(&'a [u8]),
    /// CommandComplete or EmptyQueryResponse, where rows are wanted.
    Completed,
}

/// The stream is not the Postgres protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reply is not the Postgres protocol: message `{tag}` with length {length}", tag = .tag.escape_ascii())]
pub(crate) struct FrameError {
    tag: u8,
    length: u32,
}

/// Where in a frame the stream stands.
#[derive(Debug, Default)]
pub(crate) struct FrameWalker {
    header: [u8; HEADER_BYTES],
    header_len: usize,
    /// Payload bytes of the current frame that have not arrived.
    missing: usize,
    /// The payload so far, of frames that are kept.
    captured: Vec<u8>,
}

impl FrameWalker {
    /// Walks over `chunk` and hands every frame that matters to `on_frame`, in order; results only
    /// where rows are wanted, which must not change in the middle of a reply.
    #[inline]
    pub(crate) fn walk(
        &mut self,
        mut chunk: &[u8],
        rows: bool,
        mut on_frame: impl FnMut(Frame<'_>),
    ) -> Result<(), FrameError> {
        loop {
            if self.header_len == 0 {
                chunk = walk_whole_frames(chunk, rows, &mut on_frame)?;
            }
            if chunk.is_empty() {
                return Ok(());
            }
            if self.header_len < HEADER_BYTES {
                let taken = chunk.len().min(HEADER_BYTES - self.header_len);
                self.header[self.header_len..self.header_len + taken]
                    .copy_from_slice(&chunk[..taken]);
                self.header_len += taken;
                chunk = &chunk[taken..];
                if self.header_len < HEADER_BYTES {
                    return Ok(());
                }
                self.missing = payload_length(self.header, rows)?;
            }
            let taken = chunk.len().min(self.missing);
            let (payload, rest) = chunk.split_at(taken);
            self.missing -= taken;
            chunk = rest;
            let tag = self.header[0];
            if self.missing > 0 {
                if is_kept(tag, rows) {
                    self.captured.extend_from_slice(payload);
                }
                return Ok(());
            }
            self.header_len = 0;
            if self.captured.is_empty() {
                emit(tag, payload, rows, &mut on_frame);
            } else {
                self.captured.extend_from_slice(payload);
                emit(tag, &self.captured, rows, &mut on_frame);
                self.captured.clear();
                self.captured.shrink_to(CAPTURE_MAX_BYTES);
            }
        }
    }
}

/// Walks over the frames at the beginning of `chunk` that are there whole, which is nearly all of
/// them; the result is what follows.
#[inline]
fn walk_whole_frames<'a>(
    mut chunk: &'a [u8],
    rows: bool,
    on_frame: &mut impl FnMut(Frame<'_>),
) -> Result<&'a [u8], FrameError> {
    while let Some((header, rest)) = chunk.split_first_chunk() {
        let length = payload_length(*header, rows)?;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        emit(header[0], payload, rows, on_frame);
        chunk = rest;
    }
    Ok(chunk)
}

#[inline]
fn payload_length(header: [u8; HEADER_BYTES], rows: bool) -> Result<usize, FrameError> {
    let [tag, length @ ..] = header;
    let length = u32::from_be_bytes(length);
    let error = FrameError { tag, length };
    let payload = (length as usize).checked_sub(4).ok_or(error)?;
    let plausible = match tag {
        b'Z' => payload == 1,
        b'E' => payload <= CAPTURE_MAX_BYTES,
        tag if is_kept(tag, rows) => payload <= ROW_MAX_BYTES,
        // The server's own limit for one message.
        _ => i32::try_from(length).is_ok(),
    };
    if plausible { Ok(payload) } else { Err(error) }
}

fn is_kept(tag: u8, rows: bool) -> bool {
    matches!(tag, b'E' | b'Z') || (rows && matches!(tag, b'T' | b'D'))
}

#[inline]
fn emit(tag: u8, payload: &[u8], rows: bool, on_frame: &mut impl FnMut(Frame<'_>)) {
    match tag {
        b'Z' => on_frame(Frame::Ready(payload[0])),
        b'E' => on_frame(Frame::Error(payload)),
        b'1' => on_frame(Frame::Parsed),
        b'G' | b'H' | b'W' => on_frame(Frame::Copy),
        b'T' if rows => on_frame(Frame::Columns(payload)),
        b'D' if rows => on_frame(Frame::Row(payload)),
        b'C' | b'I' if rows => on_frame(Frame::Completed),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len() + 4).unwrap();
        [&[tag], &length.to_be_bytes()[..], payload].concat()
    }

    fn walk_in_chunks(stream: &[u8], cuts: &[usize]) -> (Vec<String>, Result<(), FrameError>) {
        let mut walker = FrameWalker::default();
        let mut seen = Vec::new();
        let mut from = 0;
        let ends = cuts.iter().copied().filter(|&cut| cut < stream.len()).chain([stream.len()]);
        for to in ends {
            if to <= from {
                continue;
            }
            let result =
                walker.walk(&stream[from..to], false, |frame| seen.push(format!("{frame:?}")));
            if result.is_err() {
                return (seen, result);
            }
            from = to;
        }
        (seen, Ok(()))
    }

    #[test]
    fn a_prepared_reply_is_one_ready() {
        let reply = [
            frame(b'2', b""),
            frame(b'T', b"\0\x01abalance\0"),
            frame(b'D', b"\0\x01\0\0\0\x010"),
            frame(b'C', b"SELECT 1\0"),
            frame(b'Z', b"I"),
        ]
        .concat();
        assert_eq!(walk_in_chunks(&reply, &[]).0, [format!("{:?}", Frame::Ready(b'I'))]);
    }

    #[test]
    fn a_data_row_that_looks_like_ready_is_skipped() {
        let row = frame(b'D', &frame(b'Z', b"I"));
        assert_eq!(walk_in_chunks(&row, &[3, 9]), (vec![], Ok(())));
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for stream in [frame(b'Z', b"II"), vec![b'D', 0, 0, 0, 3], vec![b'D', 255, 0, 0, 0]] {
            assert!(walk_in_chunks(&stream, &[]).1.is_err(), "{stream:?}");
        }
    }

    proptest! {
        #[test]
        fn chunking_changes_nothing(
            frames in prop::collection::vec(
                (prop::sample::select(b"12TDCSNEZGH".to_vec()), prop::collection::vec(any::<u8>(), 0..40)),
                0..20,
            ),
            mut cuts in prop::collection::vec(0usize..600, 0..30),
        ) {
            let stream: Vec<u8> = frames
                .iter()
                .flat_map(|(tag, payload)| {
                    frame(*tag, if *tag == b'Z' { b"T" } else { payload })
                })
                .collect();
            cuts.sort_unstable();
            let (whole, whole_result) = walk_in_chunks(&stream, &[]);
            prop_assert_eq!(whole_result, Ok(()));
            let kept = frames.iter().filter(|(tag, _)| b"1EZGH".contains(tag)).count();
            prop_assert_eq!(whole.len(), kept);
            prop_assert_eq!(walk_in_chunks(&stream, &cuts).0, whole);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            stream in prop::collection::vec(any::<u8>(), 0..300),
            mut cuts in prop::collection::vec(0usize..300, 0..30),
        ) {
            cuts.sort_unstable();
            let (whole, whole_result) = walk_in_chunks(&stream, &[]);
            let (cut, cut_result) = walk_in_chunks(&stream, &cuts);
            prop_assert_eq!(whole, cut);
            prop_assert_eq!(whole_result, cut_result);
        }
    }
}
