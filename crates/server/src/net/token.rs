//! Tokens of connections, and what is wanted from them.

/// Names a connection of one worker. Indices are used again, tokens are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Dense and small.
    pub(crate) index: u32,
    /// Distinguishes successive connections with the same index.
    pub(crate) generation: u32,
}

/// Marks the index of a connection that is a pipe.
const OF_PIPE: u32 = 1 << 31;

impl Token {
    /// The same as that of a pipe.
    pub(crate) fn of_pipe(self) -> Self {
        Token { index: self.index | OF_PIPE, ..self }
    }

    /// Whether it names a pipe, and no socket.
    #[inline]
    pub(crate) fn is_of_pipe(self) -> bool {
        self.index & OF_PIPE != 0
    }

    /// As a table of pipes alone, or of sockets alone, has it.
    pub(crate) fn in_table(self) -> Self {
        Token { index: self.index & !OF_PIPE, ..self }
    }

    /// Its place in such a table.
    #[inline]
    pub(crate) fn place(self) -> usize {
        self.in_table().index as usize
    }

    /// As the kernel carries it.
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From what the kernel carried.
    pub(crate) fn from_u64(data: u64) -> Self {
        Token { index: data as u32, generation: (data >> 32) as u32 }
    }
}

/// What is to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// Whatever comes, into the driver's own memory.
    Bytes,
    /// What fits into the buffer of a sink, which lends it, and nothing after it.
    IntoBuffer,
}
