/* templates_known.h - made by tests/peers/chat_same.py: digest of a template, and the shape it is. */
{ "e8c6cd531610b8110e563b1979325620c1fc791654114a3f6522aa0ab1ea619b", "chatml" },     /* ollama-cogito-14b */
    { "58c1a1f04baa7adaeaba1f90267c3d57d9396f0c1f0129bdde9e76d3c6784af7", "chatml" }, /* ollama-dolphin-mixtral-8x7b */
    { "153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3", "chatml" }, /* ollama-llava-34b */
    { "ceede2b04032dff3a3a330a648c03826c7bc77a1ad44e726a8a9d5bcf9aec495", "chatml" }, /* ollama-qwen3-coder-30b */
    { "eae48a3307931acb10a6fce475a36b711709672ea79ee1a9bc52f083d8b0a2af", "chatml" }, /* qwen3-coder */
    { "eb4912db3f5166abb12da14752f184a41a679e7f67a567bec432b1e5961dc82f", "chatml" }, /* tests/golden/chat.golden */
    { "64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326", "chatml" }, /* trl-qwen3_instruct_2507 */
    { "48e17aa3caf5bf20075b6e7366864ee943e00b6f0752aadfe8b670c2ab0291a5",
      "chatml" }, /* trl-qwen3_instruct_2507_training */
    { "49aa7cb516942cc5a17d45ed2939828e3b5e4188dc487a3c4b64a570e5b5111f", "chatml-bos" }, /* ollama-internlm2-1.8b */
    { "a805e50fed68938a076b07e2e602639611b50b1ced0e50f11eb92f1ba25be4dc",
      "chatml-bos" }, /* ollama-nous-hermes2-mixtral-8x7b */
    { "793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb", "qwen2" },   /* ollama-qwen2-0.5b */
    { "a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb", "qwen2" },   /* ollama-qwen2.5vl-latest */
    { "31c85932a6d8826f0fe8d52b81767eba6b869128b0a7c7503d1e7baaad4e8043", "qwen2" },   /* trl-qwen2_5_vl_training */
    { "55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a", "qwen2.5" }, /* Qwen-Qwen2.5-7B-Instruct */
    { "ff3042c0f32a50b9a48604b484daf3934aafa5626acb4bc183ce5f2e102faef6", "qwen2.5" }, /* czheng-qwen2.5-instruct */
    { "58386524bc1b3798f4a28bef0c35f283bc71ec7c38ee561d9b6ec616565ba4cd", "qwen2.5" }, /* lmflow-qwen2_5 */
    { "4e9918361c284a93880606d182d64da6a9fe97cdc1f5c5a78c1c8840444246fc", "qwen2.5" }, /* ollama-qwen2.5-0.5b */
    { "f3714f7117c9d447db80ceb3fcb67a64ba08d149dd4434fe53add9c7f1dd344b", "qwen2.5" }, /* trl-qwen2_5_training */
    { "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788", "smollm2" }, /* SmolLM2 */
    { "de9cde7d1b0ca0cc87459a6673e0d12fb89c070bdb24e4a30b6e4d187b226221", "smollm2" }, /* SmolLM2-escaped */
    { "68da1281c0c8bd7dd19f04fc1e8435b63858cb511819beafc270b70c8821a9bf", "llama3" },  /* axolotl-llama3 */
    { "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122",
      "llama3" }, /* meta-llama-meta-llama-3-70b-instruct */
    { "b7a0a5a2fa622861ce813ca4eecbbde688efc1161442728122dac54be0868fbb", "llama3" }, /* tests/golden/chat.golden */
    { "bc213ef03ac49e40c58b11933b109235e63d25f13e7cd4df966c577966d2345e", "llama3" }, /* trl-llama3_training */
    { "99195f2f7dc1344662663119562b46fc067034c0ea660cf1cab333617c7290c2", "llama3" }, /* unsloth-llama3 */
    { "93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7",
      "llama3.1" }, /* meta-llama-Llama-3.1-8B-Instruct */
    { "d99c0a28fd4eebd7ba2cc0309651f6d7c5486024989bc42f6bb4cc558d553689", "mistral-v7" }, /* ollama-mistral-small-24b */
    { "66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362",
      "zephyr" }, /* HuggingFaceH4-zephyr-7b-beta, TinyLlama-1.1B-Chat */
