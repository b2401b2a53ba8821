/* Fuzz target: the file of --config, from its bytes to the options of a run. Nothing is opened. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "config.h"
#include "request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every setting is an option of the table, and says where it stands. */
static void check_settings(const zoe_config *config)
{
    for (size_t i = 0; i < config->n; i++) {
        const zoe_config_setting *s = &config->settings[i];
        if (s->row >= zoe_generate_command.n_rows || !s->value ||
            strncmp(s->shown, "input:", strlen("input:")) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zoe_config config;
    static zoe_request request;
    const bool read = zoe_config_parse(&config, "input", (const char *)data, size);
    if (read != (config.mistake[0] == '\0'))
        abort(); /* refused without a reason */
    if (read) {
        request = (zoe_request){0};
        check_settings(&config);
        const bool applied = zoe_config_apply(&config, &request.found, &request);
        if (applied != (request.found.mistake[0] == '\0'))
            abort();
        for (size_t i = 0; i < config.n && applied; i++)
            if (!request.found.given[config.settings[i].row])
                abort(); /* forgotten */
    }
    zoe_config_free(&config);
    return 0;
}
