// Export: marks what the shared library shows. Everything else in it is hidden.
#pragma once

#define LOCKSTEP_EXPORT __attribute__((visibility("default")))

/// The version of these headers. A program that is built against one version keeps building against
/// later ones of the same number.
#define LOCKSTEP_API_VERSION 1
