// What each K1 variant would take for a problem: dispatch's choice among those that this CPU may use.
#ifndef MS_CONVTANH_KERNELS_DISPATCH_COST_H_
#define MS_CONVTANH_KERNELS_DISPATCH_COST_H_

#include <cstdint>
#include <vector>

#include "kernels/dispatch/plan.h"

namespace msct {

struct K1Candidate {
  const K1Variant* k1;
  K1Scheme scheme;
  double nanoseconds;  // K1 with its packing, for one image on one thread
};

// Candidates for a plan that has its problem and gate, cheapest first; at least one. The order depends on nothing that
// may differ between two runs over the same image: neither on the batch nor on the number of threads.
std::vector<K1Candidate> k1_candidates(const DispatchOptions& options, const Plan& plan);

// The one to take.
K1Candidate choose_k1(const DispatchOptions& options, const Plan& plan);

// Whether K1 reads the filter without packing it.
bool reads_filter_in_place(const ConvTanhProblem& problem, const K1Scheme& scheme);

// Input channels in a K step.
int64_t step_channels(const ConvTanhProblem& problem, const K1Scheme& scheme);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_DISPATCH_COST_H_
