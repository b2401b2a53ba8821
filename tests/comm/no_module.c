/* A library that is no module for MPI. */
int zoe_no_module(void);

int zoe_no_module(void)
{
    return 0;
}
