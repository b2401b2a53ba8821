/* Everything that Zoetrope's library offers. */
#ifndef ZOETROPE_H
#define ZOETROPE_H

#include "zoetrope/cache.h"
#include "zoetrope/comm.h"
#include "zoetrope/inspect.h"
#include "zoetrope/job.h"
#include "zoetrope/op.h"
#include "zoetrope/solver.h"
#include "zoetrope/status.h"
#include "zoetrope/store.h"
#include "zoetrope/tensor.h"

#endif
