//! The whole way on random rollouts against the reference of each stage, chained.
