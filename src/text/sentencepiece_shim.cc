// See sentencepiece_shim.h. No exception leaves this file.
#include "text/sentencepiece_shim.h"
#include <sentencepiece_processor.h>

#include <cstdio>
#include <memory>
#include <vector>

struct zoe_sentencepiece {
    sentencepiece::SentencePieceProcessor processor;
};

zoe_status zoe_sentencepiece_new(zoe_sentencepiece **model, const void *proto, size_t bytes,
                                 char *reason, size_t room)
try {
    *model = nullptr;
    std::snprintf(reason, room, "the library refused it");
    auto made = std::make_unique<zoe_sentencepiece>();
    const auto status =
        made->processor.LoadFromSerializedProto({static_cast<const char *>(proto), bytes});
    if (!status.ok()) {
        std::snprintf(reason, room, "%s", status.error_message());
        return ZOE_FORMAT;
    }
    *model = made.release();
    return ZOE_OK;
} catch (const std::bad_alloc &) {
    return ZOE_NOMEM;
} catch (...) {
    return ZOE_FORMAT;
}

void zoe_sentencepiece_free(zoe_sentencepiece *model)
{
    delete model;
}

size_t zoe_sentencepiece_size(const zoe_sentencepiece *model)
{
    return static_cast<size_t>(model->processor.GetPieceSize());
}

int32_t zoe_sentencepiece_end(const zoe_sentencepiece *model)
{
    return model->processor.eos_id();
}

zoe_status zoe_sentencepiece_encode(const zoe_sentencepiece *model, const char *text, size_t bytes,
                                    zoe_status (*add)(void *user, int32_t id), void *user)
try {
    std::vector<int> ids;
    zoe_status status = model->processor.Encode({text, bytes}, &ids).ok() ? ZOE_OK : ZOE_FORMAT;
    for (size_t i = 0; i < ids.size() && status == ZOE_OK; i++)
        status = add(user, ids[i]);
    return status;
} catch (const std::bad_alloc &) {
    return ZOE_NOMEM;
} catch (...) {
    return ZOE_FORMAT;
}
