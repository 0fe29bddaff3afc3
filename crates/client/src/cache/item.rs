//! An item to store, and the result of storing it.

/// A value to store.
///
/// ```
/// use nagi_client::cache::Item;
/// let item = Item::new(b"value").expiring(60).flagged(1);
/// assert_eq!((item.expiry, item.flags), (60, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The bytes of the value.
    pub value: &'a [u8],
    /// memcached's client flags.
    pub flags: u32,
    /// Seconds from now, or a Unix time above 30 days; 0 means never.
    pub expiry: u32,
}

impl<'a> Item<'a> {
    /// Creates an item without flags that does not expire.
    ///
    /// ```
    /// assert_eq!(nagi_client::cache::Item::new(b"value").expiry, 0);
    /// ```
    #[must_use]
    pub fn new(value: &'a [u8]) -> Self {
        Item { value, flags: 0, expiry: 0 }
    }

    /// Sets the expiry: seconds from now, or a Unix time above 30 days; 0 means never.
    ///
    /// ```
    /// assert_eq!(nagi_client::cache::Item::new(b"value").expiring(60).expiry, 60);
    /// ```
    #[must_use]
    pub fn expiring(self, expiry: u32) -> Self {
        Item { expiry, ..self }
    }

    /// Sets memcached's client flags.
    ///
    /// ```
    /// assert_eq!(nagi_client::cache::Item::new(b"value").flagged(1).flags, 1);
    /// ```
    #[must_use]
    pub fn flagged(self, flags: u32) -> Self {
        Item { flags, ..self }
    }
}

/// The result of storing a value.
///
/// ```
/// assert_ne!(nagi_client::cache::Stored::Yes, nagi_client::cache::Stored::Condition);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The value is stored.
    Yes,
    /// The condition is not met: the key for a replace does not exist, or the key for an add
    /// exists.
    Condition,
    /// The value has changed since its CAS number was read.
    Changed,
    /// The key of the CAS does not exist.
    Missing,
}
