//! Tokens of connections, and what to receive from them.

/// Identifies a connection of one worker. Indices are reused, tokens are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Small and dense.
    pub(crate) index: u32,
    /// Distinguishes successive connections with the same index.
    pub(crate) generation: u32,
}

/// Marks the index of a connection that is a pipe.
const OF_PIPE: u32 = 1 << 31;

impl Token {
    /// The token of the pipe with this index and generation.
    pub(crate) fn of_pipe(self) -> Self {
        Token { index: self.index | OF_PIPE, ..self }
    }

    /// Whether the token names a pipe rather than a socket.
    #[inline]
    pub(crate) fn is_of_pipe(self) -> bool {
        self.index & OF_PIPE != 0
    }

    /// The token within a table of only pipes or only sockets.
    pub(crate) fn in_table(self) -> Self {
        Token { index: self.index & !OF_PIPE, ..self }
    }

    /// The index in a table of only pipes or only sockets.
    #[inline]
    pub(crate) fn place(self) -> usize {
        self.in_table().index as usize
    }

    /// The token as user data of a kernel event.
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The token in the user data of a kernel event.
    pub(crate) fn from_u64(data: u64) -> Self {
        Token { index: data as u32, generation: (data >> 32) as u32 }
    }
}

/// What to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// All bytes, into the driver's own memory.
    Bytes,
    /// As much as fits into a buffer that the sink lends, and nothing after it.
    IntoBuffer,
}
