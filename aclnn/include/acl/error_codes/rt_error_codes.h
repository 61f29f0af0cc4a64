// Codes of the runtime calls (aclrt...). Names and values are CANN's; these are the ones that the CPU runtime returns.
#ifndef MS_CONVTANH_ACL_ERROR_CODES_RT_ERROR_CODES_H_
#define MS_CONVTANH_ACL_ERROR_CODES_RT_ERROR_CODES_H_

#define ACL_ERROR_RT_PARAM_INVALID 107000             // an argument is out of range
#define ACL_ERROR_RT_INVALID_DEVICEID 107001          // there is one device, 0
#define ACL_ERROR_RT_CONTEXT_NULL 107002              // the thread has no device or context
#define ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID 107006   // the event was not recorded, or takes no time
#define ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL 107007  // the end event came before the start event
#define ACL_ERROR_RT_INVALID_HANDLE 107017            // a stream, event or context that is not alive
#define ACL_ERROR_RT_MEMORY_ALLOCATION 207001         // out of memory
#define ACL_ERROR_RT_NO_STREAM_RESOURCE 207008        // no thread could be started for a stream
#define ACL_ERROR_RT_EVENT_NOT_COMPLETE 507006        // the event's work is still running
#define ACL_ERROR_RT_STREAM_SYNC_TIMEOUT 507046       // the stream's work did not end in time
#define ACL_ERROR_RT_EVENT_SYNC_TIMEOUT 507047        // the event's work did not end in time

#endif /* MS_CONVTANH_ACL_ERROR_CODES_RT_ERROR_CODES_H_ */
