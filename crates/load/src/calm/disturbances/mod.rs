//! The disturbances: one literal row each, under the functions that it is made of.

mod clients;
mod collections;
mod keyspace;
mod process;
mod row;
mod values;

pub(crate) use row::Disturbance;

/// All, in the order that they are done in.
pub(crate) fn all() -> impl Iterator<Item = &'static Disturbance> {
    [process::ALL, values::ALL, collections::ALL, keyspace::ALL, clients::ALL].into_iter().flatten()
}
