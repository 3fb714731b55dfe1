//! Every stressor does its work on this machine and says so.
