// aclrt...Stream and aclrt...Event: the C interface of stream.h.
#include "acl/acl_rt.h"
#include "aclnn/src/error.h"
#include "aclnn/src/stream.h"

namespace msct {
namespace {

constexpr int32_t kForever = -1;

int32_t check_given(const char* function, const char* name, const void* pointer) {
  return check_not_null(ACL_ERROR_INVALID_PARAM, function, {{name, pointer}});
}

int32_t check_timeout(const char* function, int32_t timeout) {
  if (timeout >= kForever) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, function, "timeout must be -1 or a number of milliseconds, got %d", timeout);
}

int32_t find_event(const char* function, const char* name, aclrtEvent handle, std::shared_ptr<Event>* event) {
  if (int32_t status = check_given(function, name, handle)) return status;
  *event = events().find(handle);
  if (*event != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_HANDLE, function, "%s must be alive and of this process, got %p", name, handle);
}

int32_t create_stream(const char* function, aclrtStream* stream) {
  return guarded(ACL_ERROR_RT_NO_STREAM_RESOURCE, function, [&]() -> int32_t {
    if (int32_t status = check_given(function, "stream", stream)) return status;
    *stream = streams().insert(std::make_shared<Stream>());
    return ACL_SUCCESS;
  });
}

// A failure that was not asked for before is returned here, not lost.
int32_t destroy_stream(const char* function, aclrtStream handle) {
  if (int32_t status = check_given(function, "stream", handle)) return status;
  const std::shared_ptr<Stream> stream = streams().erase(handle);
  if (stream == nullptr) {
    return fail(ACL_ERROR_RT_INVALID_HANDLE, function, "stream must be alive and of this process, got %p", handle);
  }
  int32_t status;
  stream->synchronize(function, kForever, &status);
  return status;
}

int32_t synchronize_stream(const char* function, aclrtStream handle, int32_t timeout) {
  if (int32_t status = check_timeout(function, timeout)) return status;
  if (handle == nullptr) return ACL_SUCCESS;  // its work was done before the calls returned
  std::shared_ptr<Stream> stream;
  if (int32_t status = find_stream(function, handle, &stream)) return status;
  int32_t status;
  if (stream->synchronize(function, timeout, &status)) return status;
  return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, function, "the stream's work took longer than %d ms", timeout);
}

int32_t create_event(const char* function, aclrtEvent* event, uint32_t flag) {
  return guarded(ACL_ERROR_BAD_ALLOC, function, [&]() -> int32_t {
    if (int32_t status = check_given(function, "event", event)) return status;
    *event = events().insert(std::make_shared<Event>((flag & ACL_EVENT_TIME_LINE) != 0));
    return ACL_SUCCESS;
  });
}

int32_t synchronize_event(const char* function, aclrtEvent handle, int32_t timeout) {
  if (int32_t status = check_timeout(function, timeout)) return status;
  std::shared_ptr<Event> event;
  if (int32_t status = find_event(function, "event", handle, &event)) return status;
  const std::shared_ptr<Recording> recording = event->latest();
  if (recording == nullptr || recording->wait(timeout)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, function, "the event's work took longer than %d ms", timeout);
}

int32_t query_event(const char* function, aclrtEvent handle, const void* status_pointer, bool* complete) {
  std::shared_ptr<Event> event;
  if (int32_t status = find_event(function, "event", handle, &event)) return status;
  if (int32_t status = check_given(function, "status", status_pointer)) return status;
  const std::shared_ptr<Recording> recording = event->latest();
  *complete = recording == nullptr || recording->is_complete();
  return ACL_SUCCESS;
}

int32_t event_time(const char* function, const char* name, aclrtEvent handle, Recording::Clock::time_point* time) {
  std::shared_ptr<Event> event;
  if (int32_t status = find_event(function, name, handle, &event)) return status;
  const std::shared_ptr<Recording> recording = event->latest();
  if (recording == nullptr || !event->timed) {
    return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, function, "%s must be recorded and made to take times%s", name,
                event->timed ? ", got one that was never recorded" : " (ACL_EVENT_TIME_LINE)");
  }
  if (!recording->is_complete()) {
    return fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, function, "%s must be complete: synchronize first", name);
  }
  *time = recording->time();
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace msct

aclError aclrtCreateStream(aclrtStream* stream) { return msct::create_stream(__func__, stream); }

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  return msct::create_stream(__func__, stream);
}

aclError aclrtDestroyStream(aclrtStream stream) { return msct::destroy_stream(__func__, stream); }

aclError aclrtDestroyStreamForce(aclrtStream stream) { return msct::destroy_stream(__func__, stream); }

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return msct::synchronize_stream(__func__, stream, msct::kForever);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return msct::synchronize_stream(__func__, stream, timeout);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  if (int32_t code = msct::check_given(__func__, "status", status)) return code;
  std::shared_ptr<msct::Stream> found;
  if (stream != nullptr) {
    if (int32_t code = msct::find_stream(__func__, stream, &found)) return code;
  }
  *status = found == nullptr || found->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  std::shared_ptr<msct::Event> found;
  if (int32_t status = msct::find_event(__func__, "event", event, &found)) return status;
  return msct::run_on_stream(__func__, stream, [recording = found->latest()]() -> int32_t {
    if (recording != nullptr) recording->wait(msct::kForever);
    return ACL_SUCCESS;
  });
}

aclError aclrtSynchronizeDevice() {
  return msct::guarded(ACL_ERROR_BAD_ALLOC, __func__, [] {
    int32_t first_failure = ACL_SUCCESS;
    for (const std::shared_ptr<msct::Stream>& stream : msct::streams().all()) {
      int32_t status;
      stream->synchronize("aclrtSynchronizeDevice", msct::kForever, &status);
      if (first_failure == ACL_SUCCESS) first_failure = status;
    }
    return first_failure;
  });
}

aclError aclrtCreateEvent(aclrtEvent* event) { return msct::create_event(__func__, event, ACL_EVENT_TIME_LINE); }

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return msct::create_event(__func__, event, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return msct::create_event(__func__, event, flag);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  std::shared_ptr<msct::Event> found;
  if (int32_t status = msct::find_event(__func__, "event", event, &found)) return status;
  msct::events().erase(event);
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return msct::guarded(ACL_ERROR_BAD_ALLOC, __func__, [&]() -> int32_t {
    std::shared_ptr<msct::Event> found;
    if (int32_t status = msct::find_event("aclrtRecordEvent", "event", event, &found)) return status;
    const auto recording = std::make_shared<msct::Recording>();
    const auto task = [recording]() -> int32_t {
      recording->complete();
      return ACL_SUCCESS;
    };
    if (int32_t status = msct::run_on_stream("aclrtRecordEvent", stream, task)) return status;
    found->record(recording);
    return ACL_SUCCESS;
  });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  bool complete = false;
  if (int32_t code = msct::query_event(__func__, event, status, &complete)) return code;
  *status = complete ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  bool complete = false;
  if (int32_t code = msct::query_event(__func__, event, status, &complete)) return code;
  *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) { return msct::synchronize_event(__func__, event, msct::kForever); }

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return msct::synchronize_event(__func__, event, timeout);
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  if (int32_t status = msct::check_given(__func__, "ms", ms)) return status;
  msct::Recording::Clock::time_point start, end;
  if (int32_t status = msct::event_time(__func__, "startEvent", startEvent, &start)) return status;
  if (int32_t status = msct::event_time(__func__, "endEvent", endEvent, &end)) return status;
  if (end < start) {
    return msct::fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, __func__, "startEvent must come before endEvent");
  }
  *ms = std::chrono::duration<float, std::milli>(end - start).count();
  return ACL_SUCCESS;
}
