/* Asking the memory for what will be written soon, without waiting for it. */
#if defined(__GNUC__) || defined(__clang__)
#define ask_for(address) __builtin_prefetch((address), 1)
#else
#define ask_for(address) ((void)0)
#endif
